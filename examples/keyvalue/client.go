// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// client reads the server's table directly.
type client struct {
	*store
	number int // from 1, and that of its node
	line   *line
	table  vipl.RemoteRegion
	read   *vipl.Descriptor // nil: no RDMA read here

	puts, gets        int
	reads, repeated   int // fetched buckets, and repeated fetches because of a store
	putTime, getTime  host.Time
	halves, backwards int // values never stored, and values older than an earlier one
	newest            map[string]uint64
}

var errMissing = errors.New("no such key")

func (c *client) connect(t *host.Thread, h *driver.Host) error {
	nic, err := vipl.OpenNIC(t, h)
	if err != nil {
		return err
	}
	if c.line, err = newLine(t, nic, vipl.VIAttributes{ReliabilityLevel: level(nic)}); err != nil {
		return err
	}
	remote := vipl.At(serverNode, port)
	for {
		_, err := c.line.vi.ConnectRequest(t, vipl.NetAddress{}, remote, patience)
		if err == nil {
			break
		}
		// The server may not wait yet, or may wait for another client.
		if !errors.Is(err, vipl.ErrNoMatch) || t.Now() > patience {
			return err
		}
		if err := t.Sleep(100 * host.Microsecond); err != nil {
			return err
		}
	}
	theirs := c.line.vi.RemoteRegions()
	if len(theirs) != 1 || theirs[0].Length != uint64(c.buckets*bucketBytes) {
		return fmt.Errorf("the server offers %+v, want one table of %d buckets", theirs, c.buckets)
	}
	c.table = theirs[0]
	if c.table.EnableRDMARead {
		c.read, err = c.line.page.Descriptor(2*vipl.DescriptorBytes, 1)
	}
	return err
}

func (c *client) ask(t *host.Thread, what uint32, e entry) (answer uint32, err error) {
	b, err := e.seal()
	if err != nil {
		return 0, err
	}
	if err := c.line.say(t, what, b); err != nil {
		return 0, err
	}
	d, err := c.line.vi.RecvWait(t, patience)
	if err != nil {
		return 0, err
	}
	answer, _ = d.Immediate()
	return answer, nil
}

func (c *client) put(t *host.Thread, key, value string) error {
	began := t.Now()
	answer, err := c.ask(t, wantPut, entry{key: key, value: value})
	if err != nil {
		return err
	}
	if answer != answerDone {
		return fmt.Errorf("put %q: the table of %d buckets is full", key, c.buckets)
	}
	c.puts++
	c.putTime += t.Now() - began
	return c.line.expect(t)
}

// get finds a key. It returns errMissing if there is none.
func (c *client) get(t *host.Thread, key string) (entry, error) {
	began := t.Now()
	find := c.search
	if c.read == nil {
		find = c.inquire
	}
	e, err := find(t, key)
	if err != nil {
		return e, err
	}
	c.gets++
	c.getTime += t.Now() - began
	if e.version < c.newest[key] {
		c.backwards++
	}
	c.newest[key] = e.version
	return e, nil
}

// search reads the table bucket by bucket, without the server.
func (c *client) search(t *host.Thread, key string) (entry, error) {
	for i := range c.buckets {
		b, err := c.fetch(t, (home(key, c.buckets)+i)%c.buckets)
		if err != nil {
			return entry{}, err
		}
		if empty(b) {
			break
		}
		if e := unseal(b); e.key == key {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("get %q: %w", key, errMissing)
}

// fetch reads a bucket until no store is in progress.
func (c *client) fetch(t *host.Thread, bucket int) ([]byte, error) {
	const tries = 10_000
	b := c.line.page.Bytes()[readAt:][:bucketBytes]
	for range tries {
		if err := c.read.SetRDMARead(c.table.Address+uint64(bucket*bucketBytes), c.table.Handle, c.line.page.Segment(readAt, bucketBytes)); err != nil {
			return nil, err
		}
		if err := c.line.vi.PostSend(t, c.read); err != nil {
			return nil, err
		}
		if _, err := c.line.vi.SendWait(t, patience); err != nil {
			return nil, err
		}
		c.reads++
		if complete(b) || c.trusting {
			return b, nil
		}
		c.repeated++
	}
	return nil, fmt.Errorf("bucket %d was in the middle of a store at %d reads", bucket, tries)
}

// inquire asks the server, for NICs without RDMA read.
func (c *client) inquire(t *host.Thread, key string) (entry, error) {
	answer, err := c.ask(t, wantGet, entry{key: key})
	if err != nil {
		return entry{}, err
	}
	e := unseal(c.line.message())
	if err := c.line.expect(t); err != nil {
		return e, err
	}
	if answer != answerDone {
		return e, fmt.Errorf("get %q: %w", key, errMissing)
	}
	return e, nil
}

// await is get for a key that another client will put.
func (c *client) await(t *host.Thread, key string) (entry, error) {
	for {
		e, err := c.get(t, key)
		if !errors.Is(err, errMissing) || t.Now() > patience {
			return e, err
		}
		if err := t.Sleep(20 * host.Microsecond); err != nil {
			return e, err
		}
	}
}

const sharedKey = "what all look at"

func keyOf(client, i int) string   { return fmt.Sprintf("client %d, key %d", client, i) }
func valueOf(client, i int) string { return fmt.Sprintf("value %d of client %d", i, client) }

// sharedValue repeats one letter, so that a mix of two values shows.
func sharedValue(i int) string { return strings.Repeat(string(rune('a'+i%26)), maxValue) }

func (c *client) main(t *host.Thread, h *driver.Host) error {
	if err := c.connect(t, h); err != nil {
		return err
	}
	for i := range c.keys {
		if err := c.put(t, keyOf(c.number, i), valueOf(c.number, i)); err != nil {
			return err
		}
	}
	for other := 1; other <= c.clients; other++ {
		for i := range c.keys {
			e, err := c.await(t, keyOf(other, i))
			if err != nil {
				return err
			}
			if e.value != valueOf(other, i) && !c.trusting {
				return fmt.Errorf("%q is %q, want %q", e.key, e.value, valueOf(other, i))
			}
		}
	}
	if _, err := c.get(t, "nobody's"); !errors.Is(err, errMissing) {
		return fmt.Errorf("a key that nobody put: %w", err)
	}
	if err := c.contend(t); err != nil {
		return err
	}
	if err := c.line.say(t, wantEnd, nil); err != nil {
		return err
	}
	if c.halves+c.backwards > 0 && !c.trusting {
		return fmt.Errorf("%d of %d gets gave a value that was never stored, %d an older one than before", c.halves, c.gets, c.backwards)
	}
	return nil
}

// contend: the first client replaces one value repeatedly, and all others read
// it.
func (c *client) contend(t *host.Thread) error {
	if c.number == 1 {
		for i := range c.rounds {
			if err := c.put(t, sharedKey, sharedValue(i)); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		e, err := c.await(t, sharedKey)
		if err != nil {
			return err
		}
		if e.value == "" || e.value != strings.Repeat(e.value[:1], maxValue) {
			c.halves++
		} else if e.value == sharedValue(c.rounds-1) && e.version == uint64(c.clients*c.keys+c.rounds) {
			return nil
		}
	}
}
