// SPDX-License-Identifier: Apache-2.0

// Command sendrecv sends messages from one simulated host to another and gets
// answers. A message is gathered from two buffers, and the receiver scatters it
// into two; the immediate data is its number.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"hvia"
)

const (
	nameBytes = 16
	textBytes = 64
	messages  = 3
	patience  = hvia.Second
)

// party is one side: a VI, and a page of registered memory with a receive and
// a send descriptor and the buffers of both.
type party struct {
	nic           *hvia.NIC
	vi            *hvia.VI
	page          *hvia.Region
	receive, send *hvia.Descriptor
}

const (
	receiveAt = 0
	sendAt    = 1024
	bufferAt  = 512 // from a descriptor to its buffers
)

func open(t *hvia.Thread, h *hvia.Host) (*party, error) {
	nic, err := hvia.OpenNIC(t, h)
	if err != nil {
		return nil, err
	}
	b, err := nic.Alloc(t, 4096)
	if err != nil {
		return nil, err
	}
	p := &party{nic: nic}
	if p.page, err = nic.RegisterBuffer(t, b, hvia.MemAttributes{}); err != nil {
		return nil, err
	}
	if p.receive, err = p.page.Descriptor(receiveAt, 2); err != nil {
		return nil, err
	}
	if p.send, err = p.page.Descriptor(sendAt, 2); err != nil {
		return nil, err
	}
	p.vi, err = nic.CreateVI(t, hvia.VIAttributes{})
	return p, err
}

// expect posts the receive of the next message. It must be posted before the
// message arrives, so the first one precedes the connection.
func (p *party) expect(t *hvia.Thread) error {
	name, text := p.page.Segment(receiveAt+bufferAt, nameBytes), p.page.Segment(receiveAt+bufferAt+nameBytes, textBytes)
	if err := p.receive.SetReceive(name, text); err != nil {
		return err
	}
	return p.vi.PostRecv(t, p.receive)
}

// say sends a message of a name and a text.
func (p *party) say(t *hvia.Thread, number int, name, text string) error {
	buffer := p.page.Bytes()[sendAt+bufferAt:]
	clear(buffer[:nameBytes])
	copy(buffer[:nameBytes], name)
	n := copy(buffer[nameBytes:][:textBytes], text)
	if err := p.send.SetSend(p.page.Segment(sendAt+bufferAt, nameBytes), p.page.Segment(sendAt+bufferAt+nameBytes, n)); err != nil {
		return err
	}
	p.send.AttachImmediate(uint32(number))
	if err := p.vi.PostSend(t, p.send); err != nil {
		return err
	}
	_, err := p.vi.SendWait(t, patience)
	return err
}

// hear waits for a message.
func (p *party) hear(t *hvia.Thread) (number int, text string, err error) {
	d, err := p.vi.RecvWait(t, patience)
	if err != nil {
		return 0, "", err
	}
	immediate, _ := d.Immediate()
	return int(immediate), string(p.page.Bytes()[receiveAt+bufferAt+nameBytes:][:d.Length()-nameBytes]), nil
}

// client asks and prints the answers.
func client(t *hvia.Thread, h *hvia.Host) error {
	p, err := open(t, h)
	if err != nil {
		return err
	}
	if err := p.expect(t); err != nil {
		return err
	}
	remote := hvia.At(1, "talk")
	// The server may not wait yet.
	for {
		_, err := p.vi.ConnectRequest(t, hvia.Address{}, remote, patience)
		if err == nil {
			break
		}
		if !errors.Is(err, hvia.ErrNoMatch) || t.Now() > patience {
			return err
		}
		if err := t.Sleep(100 * hvia.Microsecond); err != nil {
			return err
		}
	}
	for i := range messages {
		if err := p.say(t, i+1, "client", fmt.Sprintf("question %d", i+1)); err != nil {
			return err
		}
		number, answer, err := p.hear(t)
		if err != nil {
			return err
		}
		if err := p.expect(t); err != nil {
			return err
		}
		fmt.Printf("%d: %s\n", number, answer)
	}
	return p.vi.Disconnect(t)
}

// server answers.
func server(t *hvia.Thread, h *hvia.Host) error {
	p, err := open(t, h)
	if err != nil {
		return err
	}
	if err := p.expect(t); err != nil {
		return err
	}
	r, err := p.nic.ConnectWait(t, hvia.Address{Discriminator: "talk"}, patience)
	if err != nil {
		return err
	}
	if err := r.Accept(t, p.vi); err != nil {
		return err
	}
	for range messages {
		number, question, err := p.hear(t)
		if err != nil {
			return err
		}
		// The next question may arrive as soon as the answer has left.
		if err := p.expect(t); err != nil {
			return err
		}
		if err := p.say(t, number, "server", "the answer to "+question); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, d hvia.Device) error {
	return hvia.Run(ctx, hvia.Config{Device: d}, hvia.Program{Node: 0, Name: "client", Main: client}, hvia.Program{Node: 1, Name: "server", Main: server})
}

var device = flag.String("device", string(hvia.DeviceHvia), "what the hosts have: hvia, the card; or mvia, a plain NIC with VIA in the kernel")

func main() {
	flag.Parse()
	if err := run(context.Background(), hvia.Device(*device)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
