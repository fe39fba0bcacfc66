// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"hvia/bench/rig"
	"hvia/costs"
)

// PeerVerb is the argument that starts this program as the process of the
// second host; the job follows on its standard input.
const PeerVerb = "serve-peer"

// peerJob is the input of the second host's process. It has no Progress.
type peerJob struct {
	Config   Config
	Exchange rig.Exchange
	Sizes    []int
	Path     string
}

func decodePeerJob(b []byte) (peerJob, error) {
	var j peerJob
	if err := json.Unmarshal(b, &j); err != nil {
		return j, fmt.Errorf("serve the second host: the job on standard input: %w", err)
	}
	if err := j.Config.Validate(); err != nil {
		return j, fmt.Errorf("serve the second host: %w", err)
	}
	if !slices.Contains(rig.CardExchanges, j.Exchange) {
		return j, fmt.Errorf("serve the second host: %w: exchange %q: %q are possible", costs.ErrConfig, j.Exchange, rig.CardExchanges)
	}
	for _, s := range j.Sizes {
		if !slices.Contains(j.Config.Sizes, s) {
			return j, fmt.Errorf("serve the second host: %w: size %d is not one of %v", costs.ErrConfig, s, j.Config.Sizes)
		}
	}
	if len(j.Sizes) == 0 || j.Path == "" {
		return j, fmt.Errorf("serve the second host: %w: sizes %v, fabric at %q: both are needed", costs.ErrConfig, j.Sizes, j.Path)
	}
	return j, nil
}

type peerProcess struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	once   sync.Once
	err    error
}

func startPeer(ctx context.Context, j peerJob) (*peerProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the second host: %w", err)
	}
	job, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("start the second host: %w", err)
	}
	p := &peerProcess{cmd: exec.CommandContext(ctx, program, PeerVerb)}
	p.cmd.Stdin = bytes.NewReader(job)
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the second host: %w", err)
	}
	return p, nil
}

// wait returns when the process has exited, and why it failed.
func (p *peerProcess) wait() error {
	p.once.Do(func() {
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("the second host: %w: %s", err, strings.TrimSpace(p.stderr.String()))
		}
	})
	return p.err
}
