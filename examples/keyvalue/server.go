// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// The immediate data of a message is its kind; its bytes are a bucket.
const (
	wantPut = iota + 1
	wantGet // for NICs without RDMA read
	wantEnd
	answerDone
	answerMissing
	answerFull
)

// line is one end of a connection: a VI, and a page with its descriptors and
// buffers.
type line struct {
	vi            *vipl.VI
	page          *vipl.Region
	receive, send *vipl.Descriptor
}

const (
	receiveAt = 1024 // of incoming messages
	sendAt    = 2048
	readAt    = 3072 // of fetched buckets
	lineBytes = 4096
)

// level is the best level of a NIC, preferring one with RDMA read.
func level(n *vipl.NIC) vipl.ReliabilityLevel {
	if n.Query().RDMAReadSupport&vipl.ReliableDelivery != 0 {
		return vipl.ReliableDelivery
	}
	return vipl.Unreliable
}

// newLine makes a line with the first receive posted.
func newLine(t *host.Thread, n *vipl.NIC, a vipl.VIAttributes) (*line, error) {
	b, err := n.Alloc(t, lineBytes)
	if err != nil {
		return nil, err
	}
	l := &line{}
	if l.page, err = n.RegisterBuffer(t, b, vipl.MemAttributes{}); err != nil {
		return nil, err
	}
	if l.receive, err = l.page.Descriptor(0, 1); err != nil {
		return nil, err
	}
	if l.send, err = l.page.Descriptor(vipl.DescriptorBytes, 1); err != nil {
		return nil, err
	}
	if l.vi, err = n.CreateVI(t, a); err != nil {
		return nil, err
	}
	return l, l.expect(t)
}

func (l *line) expect(t *host.Thread) error {
	if err := l.receive.SetReceive(l.page.Segment(receiveAt, bucketBytes)); err != nil {
		return err
	}
	return l.vi.PostRecv(t, l.receive)
}

func (l *line) message() []byte { return l.page.Bytes()[receiveAt:][:bucketBytes] }

// say sends a bucket, or a message without one.
func (l *line) say(t *host.Thread, what uint32, bucket []byte) error {
	n := copy(l.page.Bytes()[sendAt:], bucket)
	if err := l.send.SetSend(l.page.Segment(sendAt, n)); err != nil {
		return err
	}
	l.send.AttachImmediate(what)
	if err := l.vi.PostSend(t, l.send); err != nil {
		return err
	}
	_, err := l.vi.SendWait(t, patience)
	return err
}

// server owns the table and is its only writer, one store at a time.
type server struct {
	*store
	table   *vipl.Region
	lines   []*line
	version uint64
	puts    int // stored
	gets    int // answered
}

func (s *server) main(t *host.Thread, h *driver.Host) error {
	nic, err := vipl.OpenNIC(t, h)
	if err != nil {
		return err
	}
	oneSided := level(nic) != vipl.Unreliable
	b, err := nic.Alloc(t, s.buckets*bucketBytes)
	if err != nil {
		return err
	}
	if s.table, err = nic.RegisterBuffer(t, b, vipl.MemAttributes{EnableRDMARead: oneSided}); err != nil {
		return err
	}
	requests, err := nic.CreateCQ(t, 64)
	if err != nil {
		return err
	}
	for range s.clients {
		l, err := newLine(t, nic, vipl.VIAttributes{ReliabilityLevel: level(nic), EnableRDMARead: oneSided, RecvCQ: requests})
		if err != nil {
			return err
		}
		s.lines = append(s.lines, l)
		// The client gets the address of the table with the connection.
		if err := l.vi.Offer(t, s.table); err != nil {
			return err
		}
	}
	for _, l := range s.lines {
		r, err := nic.ConnectWait(t, vipl.NetAddress{Discriminator: port}, patience)
		if err != nil {
			return err
		}
		if err := r.Accept(t, l.vi); err != nil {
			return err
		}
	}
	for left := s.clients; left > 0; {
		request, err := requests.Wait(t, patience)
		if err != nil {
			return err
		}
		d, err := request.Done(t)
		if err != nil {
			return err
		}
		what, _ := d.Immediate()
		if what == wantEnd {
			left--
			continue
		}
		if err := s.serve(t, s.line(request.VI), what); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) line(vi *vipl.VI) *line {
	for _, l := range s.lines {
		if l.vi == vi {
			return l
		}
	}
	return nil // a completion queue has entries of tied VIs only
}

func (s *server) serve(t *host.Thread, l *line, what uint32) error {
	if !complete(l.message()) {
		return errors.New("a message that is no bucket")
	}
	e := unseal(l.message())
	// The next message may arrive as soon as the reply is sent.
	if err := l.expect(t); err != nil {
		return err
	}
	at, found := s.find(e.key)
	switch {
	case what == wantGet && !found:
		return l.say(t, answerMissing, nil)
	case what == wantGet:
		s.gets++
		return l.say(t, answerDone, at)
	case what != wantPut:
		return fmt.Errorf("message %d is not known", what)
	case at == nil:
		return l.say(t, answerFull, nil)
	}
	s.version++
	e.version = s.version
	b, err := e.seal()
	if err != nil {
		return err
	}
	if err := s.write(t, at, b); err != nil {
		return err
	}
	s.puts++
	return l.say(t, answerDone, b)
}

// find returns the bucket of a key, or the empty one for it; nil if the table
// is full.
func (s *server) find(key string) (at []byte, found bool) {
	for i := range s.buckets {
		b := s.bucket((home(key, s.buckets) + i) % s.buckets)
		if empty(b) {
			return b, false
		}
		if unseal(b).key == key {
			return b, true
		}
	}
	return nil, false
}

func (s *server) bucket(i int) []byte { return s.table.Bytes()[i*bucketBytes:][:bucketBytes] }

// write stores a bucket. Others may read it meanwhile.
func (s *server) write(t *host.Thread, at, b []byte) error {
	const middle = bucketBytes / 2
	copy(at[:middle], b)
	if s.pause > 0 {
		if err := t.Sleep(s.pause); err != nil {
			return err
		}
	}
	copy(at[middle:], b[middle:])
	return nil
}
