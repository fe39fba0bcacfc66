// SPDX-License-Identifier: Apache-2.0

package att_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"hvia/att"
	"hvia/layout"
)

// state is the expected content of the table's memory.
type state struct {
	image att.Image
	limit uint32
}

// answer is a permitted answer of a translation.
type answer struct {
	code  layout.AttError
	trans att.Translation
}

func (s *state) answer(op operation) answer {
	tr, err := att.Translate(&s.image, s.limit, att.Handle(op.Argument), op.Va, op.Length, op.Tag, layout.AttAccess(op.Access))
	return answer{att.Code(err), tr}
}

// update is an operation of the update lane with its effect on the model.
type update struct {
	op      operation
	words   []uint32
	refused bool
}

func (s *state) apply(u update) {
	if u.refused {
		return
	}
	switch u.op.Kind {
	case opWrite:
		s.image.WriteDwords(u.op.Argument, u.words)
	case opInvalidate:
		h := att.Handle(u.op.Argument)
		e := att.ReadEntry(&s.image, h.Index())
		e.Valid = false
		s.image.WriteEntry(h.Index(), e)
	case opLimit:
		s.limit = u.op.Argument
		for i := range s.limit {
			s.image.WriteDwords(att.Level1Address(i)+layout.AttLevel1AttributesOffset, []uint32{0})
		}
	}
}

// region is the generator's record of a registered region.
type region struct {
	handle att.Handle
	start  uint64
	length uint64
	tag    uint16
	client uint8 // last used it, so it may have a stale copy
	vi     uint8
}

// generator makes random operations of the table.
type generator struct {
	rng     *rand.Rand
	o       options
	table   *att.Table
	limit   uint32 // the card's: the table's entries and some invalid ones
	live    []*region
	stale   []*region
	odd     []*region // contradictory entries
	oddGen  uint16
	nextID  uint32
	before  state // after the last completed update
	after   state // also after the update in progress
	pending map[uint32]*translation
	updates map[uint32]update
	current bool // an update is in progress
	res     *result
}

type translation struct {
	op      operation
	issued  bool
	answers []answer
}

const oddEntries = 4

func (g *generator) play(b *bench) error {
	// Before the first limit every handle is rejected.
	if err := g.batch(b, g.translations(20), opRun); err != nil {
		return err
	}
	fresh := true
	for n := 0; g.res.operations < g.o.operations; n++ {
		var lane []update
		if fresh || g.rng.IntN(60) == 0 {
			lane = append(lane, g.newLimit())
			fresh = false
		}
		for range g.rng.IntN(8) {
			lane = append(lane, g.someUpdates()...)
		}
		kind := uint8(opRun)
		if g.rng.IntN(150) == 0 {
			kind, fresh = opReset, true
		}
		ops := g.translations(40 + g.rng.IntN(60))
		for _, u := range lane {
			g.updates[u.op.ID] = u
			if err := b.send(u.op, u.words); err != nil {
				return err
			}
		}
		if err := g.batch(b, ops, kind); err != nil {
			return err
		}
	}
	return nil
}

func (g *generator) id() uint32 { g.nextID++; return g.nextID }

func (g *generator) delay() uint16 {
	switch {
	case g.o.pauses && g.rng.IntN(3) == 0:
		return uint16(g.rng.IntN(6000))
	case g.rng.IntN(2) == 0:
		return 0
	}
	return uint16(g.rng.IntN(20))
}

func (g *generator) update(kind uint8, argument, length uint32, words []uint32, refused bool) update {
	return update{
		op:      operation{Kind: kind, Lane: updateLane, Delay: g.delay(), ID: g.id(), Argument: argument, Length: length},
		words:   words,
		refused: refused,
	}
}

func (g *generator) newLimit() update {
	g.limit = 16 + uint32(g.rng.IntN(100))
	table, err := att.NewTable(g.limit - oddEntries)
	if err != nil {
		panic(err)
	}
	g.table = table
	g.stale = append(g.stale, g.live...)
	g.live, g.odd = nil, nil
	return g.update(opLimit, g.limit, 0, nil, false)
}

// someUpdates is one step of changes to the table.
func (g *generator) someUpdates() []update {
	switch n := g.rng.IntN(100); {
	case n < 50 && g.table.Len() < int(g.table.Limit()):
		return g.register()
	case n < 85 && len(g.live) > 0:
		i := g.rng.IntN(len(g.live))
		r := g.live[i]
		g.live = append(g.live[:i], g.live[i+1:]...)
		g.stale = append(g.stale, r)
		if len(g.stale) > 40 {
			g.stale = g.stale[1:]
		}
		if err := g.table.Deregister(r.handle); err != nil {
			panic(err)
		}
		return []update{g.update(opInvalidate, uint32(r.handle), 0, nil, false)}
	case n < 90:
		return g.contradiction()
	default:
		return []update{g.refusedUpdate()}
	}
}

func (g *generator) register() []update {
	pages := 1 + g.rng.IntN(6)
	switch g.rng.IntN(40) {
	case 0:
		pages = 1 + g.rng.IntN(2500) // level-2 entries over several rows
	case 1, 2:
		pages = 1 + g.rng.IntN(200)
	}
	head := uint64(g.rng.IntN(layout.AttPageBytes))
	if g.rng.IntN(3) == 0 {
		head = 0
	}
	tail := uint64(1 + g.rng.IntN(layout.AttPageBytes))
	length := uint64(pages)*layout.AttPageBytes - head - (layout.AttPageBytes - tail)
	if pages == 1 {
		length = 1 + g.rng.Uint64N(layout.AttPageBytes-head)
	}
	start := g.rng.Uint64() &^ (layout.AttPageBytes - 1)
	switch g.rng.IntN(8) {
	case 0: // at the end of the address space
		start = ^uint64(0) - uint64(pages)*layout.AttPageBytes + 1
	case 1:
		start = 0
	case 2: // around 4 GiB, where carries occur
		start = 1<<32 - uint64(g.rng.IntN(3))*layout.AttPageBytes
	}
	start += head
	r := att.Region{
		Start: start, Length: length, Tag: g.tag(),
		RDMAWrite: g.rng.IntN(2) == 0, RDMARead: g.rng.IntN(2) == 0,
	}
	for range att.PagesOf(start, length) {
		r.Pages = append(r.Pages, g.rng.Uint32()&^(layout.AttPageBytes-1))
	}
	reg, err := g.table.Register(r)
	if err != nil {
		panic(err)
	}
	g.live = append(g.live, &region{handle: reg.Handle, start: start, length: length, tag: r.Tag})
	entry := reg.Entry.Dwords()
	return []update{
		g.update(opWrite, reg.Entry.Level2Address, uint32(len(reg.Level2)), reg.Level2, false),
		g.update(opWrite, att.Level1Address(reg.Handle.Index()), uint32(len(entry)), entry, false),
	}
}

// contradiction writes an invalid entry outside all regions.
func (g *generator) contradiction() []update {
	var list []update
	if len(g.odd) == oddEntries {
		// The contract requires the invalidation of overwritten entries.
		r := g.odd[0]
		g.odd = g.odd[1:]
		g.stale = append(g.stale, r)
		list = append(list, g.update(opInvalidate, uint32(r.handle), 0, nil, false))
	}
	used := map[uint32]bool{}
	for _, r := range g.odd {
		used[r.handle.Index()] = true
	}
	index := g.limit - oddEntries
	for used[index] {
		index++
	}
	g.oddGen = g.oddGen%4095 + 1
	e := att.Entry{
		Start: g.rng.Uint64(), Level2Address: layout.AttLevel2Base + 4*uint32(g.rng.IntN(1000)), Pages: 1 + uint32(g.rng.IntN(5)),
		FirstBytes: uint16(1 + g.rng.IntN(4096)), LastBytes: uint16(1 + g.rng.IntN(4096)),
		Valid: true, RDMAWrite: true, RDMARead: true, Generation: g.oddGen, Tag: g.tag(),
	}
	switch g.rng.IntN(9) {
	case 0:
		e.Level2Address -= layout.AttLevel2Base
	case 1:
		e.Level2Address |= 1 << g.rng.IntN(2)
	case 2:
		e.Level2Address |= 1 << (26 + g.rng.IntN(6))
	case 3:
		e.Pages = 0
	case 4:
		e.Pages = layout.AttLevel2Count - (e.Level2Address-layout.AttLevel2Base)/4 + 1
	case 5:
		e.Pages |= 1 << (24 + g.rng.IntN(8))
	case 6:
		e.FirstBytes = uint16(g.rng.IntN(2)) * (4097 + uint16(g.rng.IntN(1000)))
	case 7:
		e.LastBytes = uint16(g.rng.IntN(2)) * (4097 + uint16(g.rng.IntN(1000)))
	case 8:
		// The longest valid entry: its level-2 entries are the memory's present
		// content.
		e.Level2Address = layout.AttSdramBytes - 4*e.Pages
		level2 := make([]uint32, e.Pages)
		for i := range level2 {
			level2[i] = g.rng.Uint32()
		}
		list = append(list, g.update(opWrite, e.Level2Address, e.Pages, level2, false))
	}
	r := &region{handle: att.MakeHandle(index, e.Generation), start: e.Start, length: 1, tag: e.Tag}
	if e.Check() == nil {
		r.length = e.Length()
	}
	g.odd = append(g.odd, r)
	entry := e.Dwords()
	return append(list, g.update(opWrite, att.Level1Address(index), uint32(len(entry)), entry, false))
}

// refusedUpdate is an update that the card must reject without effect.
func (g *generator) refusedUpdate() update {
	words := []uint32{g.rng.Uint32(), g.rng.Uint32()}
	switch g.rng.IntN(6) {
	case 0:
		return g.update(opWrite, layout.AttLevel2Base+1+uint32(g.rng.IntN(3)), 2, words, true)
	case 1:
		return g.update(opWrite, layout.AttSdramBytes-4, 2, words, true)
	case 2:
		return g.update(opWrite, layout.AttLevel2Base, 0, nil, true)
	case 3:
		return g.update(opLimit, layout.AttLevel1Count+1+g.rng.Uint32N(1<<30), 0, nil, true)
	case 4:
		return g.update(opInvalidate, g.limit+g.rng.Uint32N(1<<20-g.limit), 0, nil, true)
	}
	h := att.MakeHandle(layout.AttLevel1Count-1, 1)
	if len(g.stale) > 0 {
		// A new table counts generations from the start: an old handle may name
		// a new region.
		if old := g.stale[g.rng.IntN(len(g.stale))].handle; !g.alive(old) {
			h = old
		}
	}
	return g.update(opInvalidate, uint32(h), 0, nil, true)
}

// alive reports whether a valid entry has the handle, after all completed
// updates.
func (g *generator) alive(h att.Handle) bool {
	for _, list := range [][]*region{g.live, g.odd} {
		for _, r := range list {
			if r.handle == h {
				return true
			}
		}
	}
	return false
}

// tag is one of few values, some of which are byte-swapped forms of others.
func (g *generator) tag() uint16 {
	return []uint16{0x0001, 0x0100, 0x1234, 0x3412, 0xffff, 0}[g.rng.IntN(6)]
}

func (g *generator) translations(n int) []operation {
	ops := make([]operation, n)
	for i := range ops {
		ops[i] = g.translation()
	}
	return ops
}

func (g *generator) translation() operation {
	op := operation{
		Kind: opTranslate, Lane: uint8(g.rng.IntN(3)), Access: uint8(g.rng.IntN(3)), Delay: g.delay(),
		Tag: g.tag(), ID: g.id(), VI: uint8(g.rng.IntN(4)),
	}
	if g.rng.IntN(8) == 0 {
		op.VI = uint8(g.rng.IntN(256))
	}
	if g.rng.IntN(10) == 0 {
		op.VI = 255
	}
	if g.rng.IntN(200) == 0 {
		op.Access = 3
	}
	var r *region
	switch n := g.rng.IntN(100); {
	case n < 62 && len(g.live) > 0:
		// Often a recent region, so that cached entries are used.
		i := g.rng.IntN(len(g.live))
		if g.rng.IntN(2) == 0 {
			i = len(g.live) - 1 - g.rng.IntN(min(3, len(g.live)))
		}
		r = g.live[i]
		r.client, r.vi = op.Lane, op.VI
	case n < 80 && len(g.stale) > 0:
		i := g.rng.IntN(len(g.stale))
		if g.rng.IntN(2) == 0 {
			i = len(g.stale) - 1 - g.rng.IntN(min(3, len(g.stale)))
		}
		r = g.stale[i]
		if g.rng.IntN(2) == 0 {
			op.Lane, op.VI = r.client, r.vi
		}
	case n < 88 && len(g.odd) > 0:
		r = g.odd[g.rng.IntN(len(g.odd))]
	default:
		r = &region{handle: att.Handle(g.rng.Uint32()), start: g.rng.Uint64(), length: 1}
		if g.rng.IntN(2) == 0 {
			r.handle = att.MakeHandle(g.limit+uint32(g.rng.IntN(2)), uint16(1+g.rng.IntN(2)))
		}
		if g.rng.IntN(6) == 0 {
			r.handle = 0
		}
	}
	op.Argument = uint32(r.handle)
	if g.rng.IntN(25) == 0 {
		op.Argument ^= 1 << (20 + g.rng.IntN(12)) // another generation
	}
	if g.rng.IntN(8) != 0 {
		op.Tag = r.tag
	}
	g.place(&op, r)
	return op
}

// place chooses the bytes: mostly inside, often at an edge or slightly beyond
// it.
func (g *generator) place(op *operation, r *region) {
	off := g.rng.Uint64N(r.length)
	if g.rng.IntN(3) == 0 {
		// Around the first page boundaries and the last.
		head := layout.AttPageBytes - r.start%layout.AttPageBytes
		edges := []uint64{0, 1, head - 1, head, head + 1, head + layout.AttPageBytes - 1, head + layout.AttPageBytes, r.length - 1, r.length}
		off = edges[g.rng.IntN(len(edges))]
	}
	op.Va = r.start + off
	rest := r.length - min(off, r.length)
	switch g.rng.IntN(10) {
	case 0:
		op.Length = 0
	case 1:
		op.Length = uint32(rest)
	case 2:
		op.Length = uint32(rest + 1)
	case 3:
		op.Length = uint32(max(rest, 1) - 1)
	case 4:
		op.Va = r.start - 1
		op.Length = uint32(1 + g.rng.IntN(3))
	case 5:
		op.Length = g.rng.Uint32() // far beyond
		op.Va = r.start + g.rng.Uint64N(1<<uint(g.rng.IntN(64)))
	default:
		op.Length = uint32(1 + g.rng.Uint64N(max(rest, 1)))
	}
}

// batch queues translations beside the updates that were sent before, runs all
// of them and checks the answers.
func (g *generator) batch(b *bench, ops []operation, kind uint8) error {
	for _, op := range ops {
		g.pending[op.ID] = &translation{op: op}
		if err := b.send(op, nil); err != nil {
			return err
		}
	}
	run := operation{Kind: kind}
	if kind == opReset {
		run.Length = uint32(g.rng.IntN(600))
	}
	if err := b.send(run, nil); err != nil {
		return err
	}
	if err := b.flush(); err != nil {
		return err
	}
	for {
		e, err := b.next()
		if err != nil {
			return err
		}
		if e.Type == evRan {
			break
		}
		if err := g.verify(e); err != nil {
			return fmt.Errorf("core clock %d, %d ps: %w", e.Clock, e.Time, err)
		}
	}
	if kind == opReset {
		// The content of a partial write is unknown, and the card must not use
		// it.
		g.before.limit, g.after.limit = 0, 0
		g.current = false
		g.res.resets++
		return nil
	}
	if len(g.pending) != 0 || len(g.updates) != 0 {
		return fmt.Errorf("%d translations and %d updates were never answered", len(g.pending), len(g.updates))
	}
	return nil
}

func (g *generator) verify(e event) error {
	switch e.Type {
	case evIssue:
		tr := g.pending[e.ID]
		if tr == nil {
			return fmt.Errorf("translation %d was issued, which is not pending", e.ID)
		}
		tr.issued = true
		tr.answers = append(tr.answers, g.before.answer(tr.op))
		if g.current {
			tr.answers = append(tr.answers, g.after.answer(tr.op))
		}
	case evStart:
		u, ok := g.updates[e.ID]
		if !ok {
			return fmt.Errorf("update %d started, which is not pending", e.ID)
		}
		g.after.apply(u)
		g.current = true
		for _, tr := range g.pending {
			if tr.issued {
				tr.answers = append(tr.answers, g.after.answer(tr.op))
			}
		}
	case evDone:
		u, ok := g.updates[e.ID]
		if !ok {
			return fmt.Errorf("update %d is done, which is not pending", e.ID)
		}
		delete(g.updates, e.ID)
		if (e.Error != 0) != u.refused {
			return fmt.Errorf("update %d (kind %d, argument %#x, %d words): rejected %v, want %v", e.ID, u.op.Kind, u.op.Argument, u.op.Length, e.Error != 0, u.refused)
		}
		g.before.apply(u)
		g.current = false
		g.res.updates++
		g.res.operations++
		if u.refused {
			g.res.refused++
		} else if u.op.Kind == opInvalidate {
			g.res.invalid++
		}
	case evResponse:
		tr := g.pending[e.ID]
		if tr == nil {
			return fmt.Errorf("translation %d was answered, which is not pending", e.ID)
		}
		delete(g.pending, e.ID)
		g.res.operations++
		if len(tr.answers) > 1 {
			g.res.raced++
		}
		got := answer{layout.AttError(e.Error), att.Translation{Address: e.Address, Bytes: e.Bytes}}
		g.res.codes[got.code]++
		if e.Flags&1 != 0 {
			g.res.level1++
		}
		if e.Flags&2 != 0 {
			g.res.level2++
		}
		if g.o.straps&(1<<layout.StrapNoAttOverlap) != 0 && got.code == layout.AttErrorNone && e.Flags&1 == 0 {
			return fmt.Errorf("translation %d was made from a level-1 entry that was kept", e.ID)
		}
		for _, a := range tr.answers {
			if a != tr.answers[0] {
				g.res.raceBoth++
			}
		}
		if !slices.Contains(tr.answers, got) {
			return fmt.Errorf("translation %d (client %d, VI %d, handle %v, %d bytes at %#x, tag %#x, access %v) said %v %#x with %d bytes in the page; the model allows %v",
				e.ID, tr.op.Lane, tr.op.VI, att.Handle(tr.op.Argument), tr.op.Length, tr.op.Va, tr.op.Tag, layout.AttAccess(tr.op.Access), got.code, e.Address, e.Bytes, tr.answers)
		}
	case evAborted:
		delete(g.pending, e.ID)
		delete(g.updates, e.ID)
	default:
		return fmt.Errorf("unknown event %d", e.Type)
	}
	return nil
}

// finish ends the simulation and compares its counts with the generator's.
func (g *generator) finish(b *bench) error {
	if err := b.send(operation{Kind: opFinish}, nil); err != nil {
		return err
	}
	if err := b.flush(); err != nil {
		return err
	}
	e, err := b.next()
	if err != nil {
		return err
	}
	if e.Type != evStats {
		return fmt.Errorf("event %d instead of the figures", e.Type)
	}
	var f [12]uint64
	if err := binary.Read(b.out, binary.LittleEndian, &f); err != nil {
		return b.fail(err)
	}
	g.res.jumps, g.res.clocks = f[8], f[9]
	if f[7] != 0 {
		return fmt.Errorf("%d breaches of SDRAM rules", f[7])
	}
	var answered, refused uint64
	for code, n := range g.res.codes {
		answered += n
		if code != layout.AttErrorNone {
			refused += n
		}
	}
	got := [5]uint64{f[0], f[1], f[2], f[3], f[4]}
	want := [5]uint64{answered, g.res.level1, g.res.level2, refused, g.res.invalid}
	if got != want {
		return fmt.Errorf("statistics: translations, level-1 reads, level-2 reads, rejected, invalidations are %d; answers say %d", got, want)
	}
	// The strobe counts refreshes after initialization, which has eight. A
	// reset may suppress one.
	if inits := g.res.resets + 1; f[5] > f[6] || f[6]-f[5] > 9*inits {
		return fmt.Errorf("statistics: %d refreshes strobed of %d given, with %d initialisations", f[5], f[6], inits)
	}
	if err := b.cmd.Wait(); err != nil {
		return b.fail(err)
	}
	return nil
}
