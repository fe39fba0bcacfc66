// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"hvia/bench/rig"
)

// progress rewrites one line on a terminal. Elsewhere it prints nothing, so
// that a log or a pipe holds only results and errors.
type progress struct {
	mu     sync.Mutex
	w      io.Writer
	began  time.Time
	active bool // there is a line to clear
}

// newProgress returns nil if progress must not be shown.
func (a *app) newProgress(json bool) *progress {
	if a.quiet || !a.StderrTTY || a.Getenv("TERM") == "dumb" || (json && a.StdoutTTY) {
		return nil
	}
	return &progress{w: a.Stderr, began: time.Now()}
}

const (
	clearLine = "\r\x1b[K"
	barWidth  = 20
)

func (p *progress) show(s rig.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = true
	fmt.Fprintf(p.w, "%s%s %s", clearLine, bar(s, time.Since(p.began)), s.What)
	if s.TimePs > 0 {
		fmt.Fprintf(p.w, ", simulated %.3f ms, %d cycles", float64(s.TimePs)/1e9, s.Cycles)
	}
}

// bar shows the part that is done, the time so far, and how long the rest takes
// if its steps take as long. An unknown total shows the count.
func bar(s rig.Progress, spent time.Duration) string {
	if s.Total == 0 {
		return fmt.Sprintf("[%d] %.0f s,", s.Done, spent.Seconds())
	}
	full := barWidth * s.Done / s.Total
	left := spent.Seconds() * float64(s.Total-s.Done) / float64(max(s.Done, 1))
	return fmt.Sprintf("[%s%s] %d/%d, %.0f s, about %.0f s left:", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), s.Done, s.Total, spent.Seconds(), left)
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
