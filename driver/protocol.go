// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/binary"
	"fmt"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// Library and agent communicate like a process and its kernel: a request is a
// message to the agent's thread, which takes requests in the order of simulated
// time. The reply goes to the calling thread's slot in the node's memory, so
// that the program alone uses its mailbox.

type operation uint16

const (
	opAllocate operation = iota + 1
	opFree
	opOpenNIC
	opCloseNIC
	opCreateTag
	opDestroyTag
	opRegister
	opDeregister
	opQueryRegion
	opModifyRegion
	opCreateVI
	opDestroyVI
	opModifyVI
	opQueryVI
	opConnectWait
	opAccept
	opReject
	opConnectRequest
	opOffer
	opPeerRequest
	opPeerDone
	opPeerWait
	opDisconnect
	opDrain
	opCreateCQ
	opDestroyCQ
	opResizeCQ
	opArm
	opNextError
	opCounters
	opAttach
	opAttend
	opBye
	opLeave
	opReclaim
)

var operationNames = [...]string{
	opAllocate: "allocate", opFree: "free", opOpenNIC: "open NIC", opCloseNIC: "close NIC", opCreateTag: "create protection tag",
	opDestroyTag: "destroy protection tag", opRegister: "register memory", opDeregister: "deregister memory", opQueryRegion: "query memory",
	opModifyRegion: "set memory attributes", opPeerRequest: "peer request", opPeerDone: "peer done", opPeerWait: "peer wait",
	opCreateVI: "create VI", opDestroyVI: "destroy VI", opModifyVI: "modify VI", opQueryVI: "query VI", opConnectWait: "connect wait",
	opAccept: "accept", opReject: "reject", opConnectRequest: "connect request", opOffer: "offer regions", opDisconnect: "disconnect", opDrain: "drain VI",
	opCreateCQ: "create completion queue", opDestroyCQ: "destroy completion queue", opResizeCQ: "resize completion queue", opArm: "arm a notification",
	opNextError: "next asynchronous error", opCounters: "read counters", opAttach: "attach protocol",
	opAttend: "attend", opBye: "leave", opLeave: "leave the fabric", opReclaim: "reclaim",
}

func (o operation) String() string {
	if int(o) < len(operationNames) && operationNames[o] != "" {
		return operationNames[o]
	}
	return fmt.Sprintf("operation(%d)", uint16(o))
}

// request is a library's request. Fields that an operation does not use are 0.
type request struct {
	ID              uint32
	Op              operation
	Scatter         uint16
	NIC             uint32
	Object          uint32 // VI index, completion queue, connection request or memory handle
	Generation      uint32 // of the VI or completion queue, to detect a handle of a destroyed one
	Address         uint64
	Length          uint64
	Timeout         int64
	MaxTransferSize uint32
	Tag             uint16
	Rights          uint8
	Reliability     uint8
	SendQueue       uint8 // number plus one of the completion queue of a VI's send queue, 0 = none
	ReceiveQueue    uint8 // likewise
	Kind            uint8 // NotifyKind
	Peer            [6]byte
	AskedLength     uint8
	OwnLength       uint8
	Asked           [layout.MaxDiscriminator]byte // discriminator of the remote end, or the one to wait at
	Own             [layout.MaxDiscriminator]byte
	Offers          uint8 // handles in use
	Handles         [layout.MaxOfferedRegions]uint32
}

// offered is a region that the other end of a connection advertises.
type offered struct {
	Address uint64
	Length  uint64
	Handle  uint32
	Rights  uint8
}

// reply is the agent's reply; the error's text follows it.
type reply struct {
	Code            uint16 // in sentinels
	TextLength      uint16
	Object          uint32
	Generation      uint32
	Address         uint64
	Length          uint64
	MaxTransferSize uint32
	Tag             uint16
	Rights          uint8
	Reliability     uint8
	State           uint8
	OwnLength       uint8
	Queues          uint8 // completion queues of the card
	Peer            [6]byte
	Own             [layout.MaxDiscriminator]byte
	Offers          uint8 // regions in use
	Regions         [layout.MaxOfferedRegions]offered
}

var (
	requestBytes = binary.Size(request{})
	replyBytes   = binary.Size(reply{})
)

const (
	replySlot  = 512 // bytes of a thread's slot: the request's number, then the reply, then the text
	replySlots = 64  // threads of a node that may call the agent
	replyBody  = 8
)

func encodeRequest(q *request) []byte {
	// Append fails only for types without a fixed size.
	b, err := binary.Append(make([]byte, 0, requestBytes), binary.LittleEndian, q)
	if err != nil {
		panic(err)
	}
	return b
}

func decodeRequest(b []byte) (request, error) {
	var q request
	if len(b) != requestBytes {
		return q, fmt.Errorf("driver: request of %d bytes, want %d: %w", len(b), requestBytes, host.ErrInvalidParameter)
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &q); err != nil {
		return q, fmt.Errorf("driver: decode request: %w", err)
	}
	if q.AskedLength > layout.MaxDiscriminator || q.OwnLength > layout.MaxDiscriminator {
		return q, fmt.Errorf("driver: %v: discriminators of %d and %d bytes, at most %d: %w", q.Op, q.AskedLength, q.OwnLength, layout.MaxDiscriminator, host.ErrInvalidParameter)
	}
	if q.Offers > layout.MaxOfferedRegions {
		return q, fmt.Errorf("driver: %v: %d regions, at most %d: %w", q.Op, q.Offers, layout.MaxOfferedRegions, host.ErrInvalidParameter)
	}
	return q, nil
}

func (q *request) asked() string { return string(q.Asked[:q.AskedLength]) }
func (q *request) own() string   { return string(q.Own[:q.OwnLength]) }

// putReply stores a reply in a slot, the request's ID last.
func putReply(slot []byte, id uint32, r *reply, err error) {
	text := ""
	r.Code = codeOf(err)
	if err != nil {
		text = err.Error()
		if room := len(slot) - replyBody - replyBytes; len(text) > room {
			text = text[:room]
		}
	}
	r.TextLength = uint16(len(text))
	if _, err := binary.Encode(slot[replyBody:], binary.LittleEndian, r); err != nil {
		panic(err) // the slot is large enough
	}
	copy(slot[replyBody+replyBytes:], text)
	mem.StoreUint32(slot, id)
}

// getReply reads a reply from a slot that another process may have written.
func getReply(slot []byte) (reply, error) {
	var r reply
	if _, err := binary.Decode(slot[replyBody:], binary.LittleEndian, &r); err != nil {
		return r, fmt.Errorf("driver: decode reply: %w", err)
	}
	text := slot[replyBody+replyBytes:]
	if int(r.Code) >= len(sentinels) || int(r.TextLength) > len(text) || r.OwnLength > layout.MaxDiscriminator || r.Offers > layout.MaxOfferedRegions {
		return reply{}, fmt.Errorf("driver: reply with code %d, %d bytes of text and %d regions: %w", r.Code, r.TextLength, r.Offers, host.ErrInvalidParameter)
	}
	if r.Code != 0 {
		return r, &RemoteError{Text: string(text[:r.TextLength]), Kind: sentinels[r.Code]}
	}
	return r, nil
}

// The agent writes the status page, and the library reads it and can watch it
// during a wait: a word for each VI; words with the time since which an
// asynchronous error is queued for a NIC handle; words that count
// notifications, for each work queue, completion queue and NIC handle.
const (
	viStateMask  = 0xff
	viEventShift = 8 // counts the changes

	statusVIs    = 256
	statusCQs    = 64
	statusNICs   = 64 // NIC handles that differ by a multiple of this share words
	errorsOffset = 4 * statusVIs
	notifyOffset = errorsOffset + 8*statusNICs
	nicsOffset   = notifyOffset + 4*(2*statusVIs+statusCQs)
	statusBytes  = nicsOffset + 4*statusNICs
)

// Everything fits the page.
const _ = uint(mem.PageBytes - statusBytes)

func errorsWord(nic uint32) int { return errorsOffset + 8*int(nic%statusNICs) }

// notifyWord counts notifications of an object, and other events for which its
// waiters must poll.
func notifyWord(kind layout.NotifyKind, index int) int {
	return notifyOffset + 4*(statusVIs*int(kind)+index)
}

// nicWord counts the notifications of all objects of a NIC handle.
func nicWord(nic uint32) int { return nicsOffset + 4*int(nic%statusNICs) }
