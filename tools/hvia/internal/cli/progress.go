// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"sync"

	"hvia/bench/rig"
)

// progress rewrites one line on a terminal. On anything else it is silent, so
// that a log or a pipe holds results and errors only.
type progress struct {
	mu     sync.Mutex
	w      io.Writer
	active bool // there is a line to clear
}

// newProgress returns nil if nothing may be shown.
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

// hook is what an experiment calls; nil if nothing may be shown.
func (p *progress) hook() func(rig.Progress) {
	if p == nil {
		return nil
	}
	return p.show
}

// done leaves the terminal as it was.
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
