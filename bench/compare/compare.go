// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/fabric"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
)

// Patterns of traffic.
const (
	PatternPingPong     = "ping-pong"
	PatternStream       = "stream"
	PatternRequestReply = "request-reply"
	PatternManyToOne    = "n-to-1"
)

func Patterns() []string {
	return []string{PatternPingPong, PatternStream, PatternRequestReply, PatternManyToOne}
}

// Largest values of a Config.
const (
	MaxMessages     = 100_000
	MaxWindow       = 256
	MaxNodes        = layout.BridgeMaxNodes
	MaxClients      = MaxNodes - 1
	maxMixWeight    = 1_000_000
	maxCompareBytes = 32 << 20 // in flight; each host has this many bytes of buffers in each direction
)

// MixEntry is one kind of request of a mix.
type MixEntry struct {
	Request int `json:"request"` // bytes
	Reply   int `json:"reply"`
	Weight  int `json:"weight"` // relative to the sum of weights
}

type Config struct {
	Profile   string
	Protocols []string // of Protocols, in the order of the report
	Pattern   string
	Sizes     []int      // message lengths in bytes; not for a mix
	Mix       []MixEntry // of requests and replies
	Messages  int        // counted, of each client: round trips, messages one way, requests. One way, 0: see countOf
	Warmup    int        // before them. One way, 0: a quarter of Messages
	Window    int        // messages in flight, 0: the maximum of windowOf
	Receives  int        // posted receive descriptors, 0: the window
	Clients   int        // threads that send to one
	Nodes     int        // of the fabric, 0: 2. With more, each client has a separate one
	Seed      uint64     // of memory scatter, payload and mix
	Params    map[string]int64
	Faults    sim.WireFaults // of the wire
	Capture   string         // frames on the wire, a file for each protocol; "" for none
	sim.Checks

	// Progress, if not nil, receives what has been done. It must not block.
	Progress func(rig.Progress)

	program string // a simulator with an injected bug, for tests
}

// DefaultConfig is a pattern with every protocol on the paper's card.
func DefaultConfig(pattern string) Config {
	c := Config{
		Profile: params.Profiles[0].Name, Protocols: paperProtocols(), Pattern: pattern, Seed: 1, Warmup: rig.KernelWarmup, Messages: rig.KernelRounds,
	}
	switch pattern {
	case PatternPingPong:
		c.Sizes = []int{4, 64, 1024, 4096, 16384, 65536}
	case PatternStream:
		c.Sizes, c.Messages, c.Warmup = []int{64, 1024, 4096, 16384, 65536}, 0, 0
	case PatternRequestReply:
		c.Mix, c.Messages = []MixEntry{{64, 4096, 80}, {1024, 65536, 20}}, 100
	case PatternManyToOne:
		c.Sizes, c.Messages, c.Warmup, c.Clients = []int{1024, 16384}, 0, 0, 4
	}
	return c
}

// Validate rejects what cannot be compared.
func (c Config) Validate() error {
	if err := rig.CheckProfile(c.Profile); err != nil {
		return err
	}
	if !slices.Contains(Patterns(), c.Pattern) {
		return fmt.Errorf("%w: no pattern %q: there is %q", costs.ErrConfig, c.Pattern, Patterns())
	}
	if len(c.Protocols) == 0 {
		return fmt.Errorf("%w: no protocols: give at least one of %q", costs.ErrConfig, Protocols())
	}
	for i, name := range c.Protocols {
		p, err := protocolOf(name)
		if err != nil {
			return err
		}
		if p.read && c.Pattern != PatternPingPong {
			return fmt.Errorf("%w: protocol %s for %s: a read fetches a message by itself, so it is measured with %s only", costs.ErrConfig, name, c.Pattern, PatternPingPong)
		}
		if slices.Contains(c.Protocols[:i], name) {
			return fmt.Errorf("%w: protocol %s is listed twice", costs.ErrConfig, name)
		}
	}
	if err := c.validTraffic(); err != nil {
		return err
	}
	least := 2
	if c.oneWay() && c.Messages == 0 {
		least = 0
	}
	for _, x := range []struct {
		what            string
		value, from, to int
	}{
		{"messages", c.Messages, least, MaxMessages}, {"warm-up messages", c.Warmup, 0, MaxMessages},
		{"messages in the window", c.Window, 0, MaxWindow}, {"receives", c.Receives, 0, MaxWindow},
	} {
		if x.value < x.from || x.value > x.to {
			return fmt.Errorf("%w: %d %s: %d to %d are possible", costs.ErrConfig, x.value, x.what, x.from, x.to)
		}
	}
	if !c.oneWay() && (c.Window != 0 || c.Receives != 0) {
		return fmt.Errorf("%w: a window of %d and %d receives for %s: only %s and %s have more than one message in flight", costs.ErrConfig, c.Window, c.Receives, c.Pattern, PatternStream, PatternManyToOne)
	}
	if err := c.validNodes(); err != nil {
		return err
	}
	if x := newComparison(c, protocol{}, costs.Board{}); c.oneWay() && x.slots()*(x.parties-1)*c.largest() > maxCompareBytes {
		return fmt.Errorf("%w: %d clients with %d messages of %d bytes in flight: at most %d bytes in all are possible; make the window smaller", costs.ErrConfig, x.parties-1, x.slots(), c.largest(), maxCompareBytes)
	}
	_, err := costs.New(c.Profile, c.Params)
	return err
}

// validNodes rejects numbers of nodes and clients, and wire faults, that do not
// fit together.
func (c Config) validNodes() error {
	if c.Nodes != 0 && (c.Nodes < 2 || c.Nodes > MaxNodes) {
		return fmt.Errorf("%w: %d nodes: 2 to %d are possible", costs.ErrConfig, c.Nodes, MaxNodes)
	}
	if c.Pattern != PatternManyToOne {
		if c.switched() {
			return fmt.Errorf("%w: %d nodes for %s: it is between 2, only %s can have more", costs.ErrConfig, c.Nodes, c.Pattern, PatternManyToOne)
		}
		if c.Clients != 0 {
			return fmt.Errorf("%w: %d clients for %s: only %s has any", costs.ErrConfig, c.Clients, c.Pattern, PatternManyToOne)
		}
	} else if c.Clients < 1 || c.Clients > MaxClients {
		return fmt.Errorf("%w: %d clients: 1 to %d are possible", costs.ErrConfig, c.Clients, MaxClients)
	}
	if c.switched() && c.Clients != c.Nodes-1 {
		return fmt.Errorf("%w: %d clients on %d nodes: of more than 2 nodes one receives and each other has one client, so it is %d clients", costs.ErrConfig, c.Clients, c.Nodes, c.Nodes-1)
	}
	if err := c.Faults.Check(c.nodes(), c.switched()); err != nil {
		return fmt.Errorf("%w: %w", costs.ErrConfig, err)
	}
	return nil
}

func (c Config) nodes() int { return max(2, c.Nodes) }

// switched reports whether there is a switch between the nodes.
func (c Config) switched() bool { return c.nodes() > 2 }

func (c Config) validTraffic() error {
	if c.Pattern != PatternRequestReply {
		if len(c.Mix) > 0 {
			return fmt.Errorf("%w: a mix for %s: it has sizes, a mix is for %s", costs.ErrConfig, c.Pattern, PatternRequestReply)
		}
		return rig.CheckSizes(c.Sizes)
	}
	if len(c.Sizes) > 0 {
		return fmt.Errorf("%w: sizes for %s: it has a mix of requests and replies", costs.ErrConfig, c.Pattern)
	}
	if len(c.Mix) == 0 {
		return fmt.Errorf("%w: no mix: give at least one kind of request", costs.ErrConfig)
	}
	for i, m := range c.Mix {
		for _, s := range []int{m.Request, m.Reply} {
			if err := rig.CheckSize(s); err != nil {
				return err
			}
		}
		if m.Weight < 1 || m.Weight > maxMixWeight {
			return fmt.Errorf("%w: a weight of %d for requests of %d bytes: 1 to %d are possible", costs.ErrConfig, m.Weight, m.Request, maxMixWeight)
		}
		if slices.ContainsFunc(c.Mix[:i], func(o MixEntry) bool { return o.Request == m.Request && o.Reply == m.Reply }) {
			return fmt.Errorf("%w: requests of %d bytes with replies of %d are listed twice", costs.ErrConfig, m.Request, m.Reply)
		}
	}
	return nil
}

// oneWay reports whether messages go one way only, several in flight at a time.
func (c Config) oneWay() bool {
	return c.Pattern == PatternStream || c.Pattern == PatternManyToOne
}

// The default window: at most this many messages and bytes. Only the window
// keeps the sender from overrunning a slower receiver.
const (
	defaultWindow      = 16
	defaultWindowBytes = 128 << 10
)

// windowOf is the largest number of messages of a size in flight.
func (c Config) windowOf(size int) int {
	if c.Window > 0 {
		return c.Window
	}
	return max(2, min(defaultWindow, defaultWindowBytes/size))
}

// The default number of messages one way: this many bytes of all clients, and
// at most this many messages. Protocols in a kernel get more: their rate is
// steady only after the buffers were filled a few times.
const (
	defaultStreamBytes = 1 << 20
	defaultStreamMost  = 1000
	kernelStreamTimes  = 4
)

// countOf is how many messages of a size a client sends: counted ones, and
// warm-up before them.
func (c Config) countOf(p protocol, size int) (counted, warmup int) {
	counted, warmup = c.Messages, c.Warmup
	if !c.oneWay() {
		return counted, warmup
	}
	if counted == 0 {
		// The last window drains when the sender has finished.
		counted = max(16, 4*c.windowOf(size), min(defaultStreamMost, defaultStreamBytes/size)/max(1, c.Clients))
		if p.inKernel() {
			counted *= kernelStreamTimes
		}
	}
	if warmup == 0 {
		warmup = (counted + 3) / 4
	}
	return counted, warmup
}

func (c Config) largest() int {
	n := grantBytes
	for _, s := range c.Sizes {
		n = max(n, s)
	}
	for _, m := range c.Mix {
		n = max(n, m.Request, m.Reply)
	}
	return n
}

func (c Config) captureOf(protocol string) string {
	if c.Capture == "" {
		return ""
	}
	ext := filepath.Ext(c.Capture)
	return strings.TrimSuffix(c.Capture, ext) + "." + protocol + ext
}

// Run runs one pattern of traffic over each protocol, each on a separate fabric
// with the same wire. On an error it also returns the measurements so far.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	defer func() { err = rig.Stopped(ctx, "compare", err) }()
	hashes, err := rig.Environment(c, c.Profile)
	if err != nil {
		return nil, err
	}
	r := NewReport(c, hashes)
	// Create the files first, so that a mistyped name fails before the run and
	// not after it.
	recordings := make([]*rig.Recording, len(c.Protocols))
	for i, name := range c.Protocols {
		if recordings[i], err = rig.Record(c.captureOf(name), ""); err != nil {
			return r, fmt.Errorf("compare: %w", err)
		}
		defer recordings[i].Remove()
	}
	for i, name := range c.Protocols {
		p, err := protocolOf(name)
		if err != nil {
			return r, err
		}
		if err := r.measure(ctx, c, p, recordings[i]); err != nil {
			return r, fmt.Errorf("compare: %s: %w", name, err)
		}
	}
	return r, nil
}

func (r *Report) measure(ctx context.Context, c Config, p protocol, rec *rig.Recording) error {
	b, err := costs.New(c.Profile, c.Params)
	if err != nil {
		return err
	}
	run := newComparison(c, p, b)
	cfg := fabric.RunConfig{Fabric: rig.Cards(b, c.Seed, 2), Device: p.device, Costs: p.costs(b), Seed: c.Seed}
	cfg.Fabric.Program, cfg.Fabric.Checks, cfg.Fabric.Faults = c.program, c.Checks, c.Faults
	cfg.Fabric.Nodes = nil // the device decides
	rec.Into(&cfg.Fabric)
	if rec.PcapFile == "" {
		cfg.Fabric.Arguments = append(cfg.Fabric.Arguments, "--frames", rec.Frames()) // to compute the use of the wire
	}
	digest := Digest{Protocol: p.name}
	cfg.Finished = func(f *sim.Fabric) (err error) {
		d, err := rig.DigestOf(ctx, f)
		if digest.Digest, digest.Parts = d.All, d.Parts; err != nil || !c.switched() && !c.faulty() {
			return err
		}
		counts, err := f.Digest(ctx)
		if err != nil {
			return err
		}
		digest.Nodes, digest.Wire = run.counts(counts), run.wireEffect(counts)
		return nil
	}
	failed := fabric.Run(ctx, cfg, run.programs()...)
	if failed == nil {
		r.Digests = append(r.Digests, digest)
	}
	// The readable rows of a failed run are reported. Its own error is more
	// important than an error of fold.
	rows, err := run.fold(rec)
	r.Rows = append(r.Rows, rows...)
	return errors.Join(failed, whenFine(failed, err), whenFine(failed, rec.WritePcap(c.Profile, c.Seed)))
}

// whenFine returns err unless the run had already failed.
func whenFine(failed, err error) error {
	if failed != nil {
		return nil
	}
	return err
}
