// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"net"
	"os"

	"hvia/layout"
	"hvia/params"
)

// ClaimHashes makes a process claim other layouts and parameters.
func ClaimHashes(o *Options, layoutHash, paramsHash uint64) {
	o.layoutHash, o.paramsHash = layoutHash, paramsHash
}

// NewTestMemory is host memory on the heap.
func NewTestMemory(frames int) *Memory {
	return &Memory{Frames: frames, use: make([]byte, 4*frames), view: make([]byte, frames*FrameBytes)}
}

// LoadWord and StoreWord access memory that is shared with the card.
func LoadWord(b []byte, offset int) uint32     { return word(b, offset).Load() }
func StoreWord(b []byte, offset int, v uint32) { word(b, offset).Store(v) }

// SlotPages returns the memory that a thread shares with the simulator.
func SlotPages(s *Slot) []byte { return s.pages }

// RingBell makes the simulator scan its slots, and SetBell writes the word on
// which it sleeps.
func RingBell(c *Conn)          { c.wakeSimulator() }
func SetBell(c *Conn, v uint32) { word(c.bell, layout.BridgeBellSequenceOffset).Store(v) }
func HeaderOf(c *Conn) []byte   { return c.header }
func SendRaw(c *Conn, b []byte) error {
	_, err := c.sock.Write(b)
	return err
}

// HelloDescriptors greets the simulator and returns the descriptors of its
// reply.
func HelloDescriptors(socket *os.File) ([]int, error) {
	defer socket.Close()
	raw, err := net.FileConn(socket)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	r := newRequest(layout.BridgeControlHello)
	r.SetLayoutHash(layout.Hash)
	r.SetParamsHash(params.Hash)
	if _, err := raw.Write(r); err != nil {
		return nil, err
	}
	b, oob := make([]byte, layout.BridgeReplySize), make([]byte, descriptorRoom)
	_, oobn, _, _, err := raw.(*net.UnixConn).ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	if layout.BridgeReply(b).Rejected() != 0 {
		return nil, errors.New(text(layout.BridgeReply(b).Text()))
	}
	return descriptors(oob[:oobn])
}

// LoadTime is the clock that the simulator gave a thread.
func LoadTime(pages []byte) uint64 {
	return layout.BridgeSlot(pages[:layout.BridgeSlotSize]).WakeTime()
}

// RequestAbort asks the simulator to end the last published wait.
func RequestAbort(s *Slot) {
	s.abort.Store(s.waitSequence.Load())
	s.conn.wakeSimulator()
}
