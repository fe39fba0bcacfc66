// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"sync"

	"hvia/bench/rig"
)

// progress rewrites one line on a terminal. Elsewhere it prints nothing, so
// that a log or a pipe holds only results and errors.
type progress struct {
	mu     sync.Mutex
	w      io.Writer
	active bool // there is a line to clear
}

// newProgress returns nil if progress must not be shown.
func (a *app) newProgress(json bool) *progress {
	if a.quiet || !a.StderrTTY || a.Getenv("TERM") == "dumb" || (json && a.StdoutTTY) {
		return nil
	}
	return &progress{w: a.Stderr}
}

const clearLine = "\r\x1b[K"

func (p *progress) show(s rig.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = true
	fmt.Fprintf(p.w, "%s[%d/%d] %s, simulated %.3f ms, %d cycles", clearLine, s.Done, s.Total, s.What, float64(s.TimePs)/1e9, s.Cycles)
}

// hook is the callback of an experiment; nil without progress.
func (p *progress) hook() func(rig.Progress) {
	if p == nil {
		return nil
	}
	return p.show
}

// done clears the line.
func (p *progress) done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active {
		fmt.Fprint(p.w, clearLine)
		p.active = false
	}
}
