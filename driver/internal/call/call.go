// SPDX-License-Identifier: Apache-2.0

// Package call is the protocol between library and kernel agent, which
// communicate like a process and its kernel: a request is a message to the
// agent's thread, which takes requests in the order of simulated time. The
// reply goes to the calling thread's slot in the node's memory, so that the
// program alone uses its mailbox. The agent publishes states in a status page.
package call

import (
	"encoding/binary"
	"fmt"

	"hvia/driver/internal/connect"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// Operation is the kind of a request.
type Operation uint16

const (
	OpAllocate Operation = iota + 1
	OpFree
	OpOpenNIC
	OpCloseNIC
	OpCreateTag
	OpDestroyTag
	OpRegister
	OpDeregister
	OpQueryRegion
	OpModifyRegion
	OpCreateVI
	OpDestroyVI
	OpModifyVI
	OpQueryVI
	OpConnectWait
	OpAccept
	OpReject
	OpConnectRequest
	OpOffer
	OpPeerRequest
	OpPeerDone
	OpPeerWait
	OpDisconnect
	OpDrain
	OpCreateCQ
	OpDestroyCQ
	OpResizeCQ
	OpArm
	OpNextError
	OpCounters
	OpAttach
	OpAttend
	OpBye
	OpLeave
	OpReclaim
)

var operationNames = [...]string{
	OpAllocate: "allocate", OpFree: "free", OpOpenNIC: "open NIC", OpCloseNIC: "close NIC", OpCreateTag: "create protection tag",
	OpDestroyTag: "destroy protection tag", OpRegister: "register memory", OpDeregister: "deregister memory", OpQueryRegion: "query memory",
	OpModifyRegion: "set memory attributes", OpPeerRequest: "peer request", OpPeerDone: "peer done", OpPeerWait: "peer wait",
	OpCreateVI: "create VI", OpDestroyVI: "destroy VI", OpModifyVI: "modify VI", OpQueryVI: "query VI", OpConnectWait: "connect wait",
	OpAccept: "accept", OpReject: "reject", OpConnectRequest: "connect request", OpOffer: "advertise regions", OpDisconnect: "disconnect", OpDrain: "drain VI",
	OpCreateCQ: "create completion queue", OpDestroyCQ: "destroy completion queue", OpResizeCQ: "resize completion queue", OpArm: "arm a notification",
	OpNextError: "next asynchronous error", OpCounters: "read counters", OpAttach: "attach protocol",
	OpAttend: "attend", OpBye: "leave", OpLeave: "leave the fabric", OpReclaim: "reclaim",
}

func (o Operation) String() string {
	if int(o) < len(operationNames) && operationNames[o] != "" {
		return operationNames[o]
	}
	return fmt.Sprintf("operation(%d)", uint16(o))
}

// Request is a library's request. Fields that an operation does not use are 0.
type Request struct {
	ID              uint32
	Op              Operation
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

// Reply is the agent's reply; the error's text follows it.
type Reply struct {
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
	requestBytes = binary.Size(Request{})
	replyBytes   = binary.Size(Reply{})
)

const (
	ReplySlot  = 512 // bytes of a thread's slot: the request's number, then the reply, then the text
	ReplySlots = 64  // threads of a node that may call the agent
	replyBody  = 8
)

func Encode(q *Request) []byte {
	// Append fails only for types without a fixed size.
	b, err := binary.Append(make([]byte, 0, requestBytes), binary.LittleEndian, q)
	if err != nil {
		panic(err)
	}
	return b
}

func Decode(b []byte) (Request, error) {
	var q Request
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

func (q *Request) AskedText() string { return string(q.Asked[:q.AskedLength]) }
func (q *Request) OwnText() string   { return string(q.Own[:q.OwnLength]) }

// PutReply stores a reply in a slot. It writes the request's ID last.
func PutReply(slot []byte, id uint32, r *Reply, err error) {
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
func GetReply(slot []byte) (Reply, error) {
	var r Reply
	if _, err := binary.Decode(slot[replyBody:], binary.LittleEndian, &r); err != nil {
		return r, fmt.Errorf("driver: decode reply: %w", err)
	}
	text := slot[replyBody+replyBytes:]
	if int(r.Code) >= len(sentinels) || int(r.TextLength) > len(text) || r.OwnLength > layout.MaxDiscriminator || r.Offers > layout.MaxOfferedRegions {
		return Reply{}, fmt.Errorf("driver: reply with code %d, %d bytes of text and %d regions: %w", r.Code, r.TextLength, r.Offers, host.ErrInvalidParameter)
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
	VIStateMask  = 0xff
	VIEventShift = 8 // counts the changes

	StatusVIs    = 256
	StatusCQs    = 64
	statusNICs   = 64 // NIC handles that differ by a multiple of this share words
	errorsOffset = 4 * StatusVIs
	notifyOffset = errorsOffset + 8*statusNICs
	nicsOffset   = notifyOffset + 4*(2*StatusVIs+StatusCQs)
	StatusBytes  = nicsOffset + 4*statusNICs
)

// Everything fits the page.
const _ = uint(mem.PageBytes - StatusBytes)

func ErrorsWord(nic uint32) int { return errorsOffset + 8*int(nic%statusNICs) }

// notifyWord counts notifications of an object, and other events for which its
// waiters must poll.
func NotifyWord(kind layout.NotifyKind, index int) int {
	return notifyOffset + 4*(StatusVIs*int(kind)+index)
}

// nicWord counts the notifications of all objects of a NIC handle.
func NICWord(nic uint32) int { return nicsOffset + 4*int(nic%statusNICs) }

// AgentRank is the rank of a node's kernel agent among its threads. Programs
// have higher ranks.
const AgentRank = 0

func PutDiscriminator(to *[layout.MaxDiscriminator]byte, d string) (uint8, error) {
	if len(d) > layout.MaxDiscriminator {
		return 0, fmt.Errorf("driver: discriminator of %d bytes, at most %d: %w", len(d), layout.MaxDiscriminator, host.ErrInvalidParameter)
	}
	return uint8(copy(to[:], d)), nil
}

// End is the end of an agent.
type End struct {
	Node int
	Done chan struct{} // closed when the agent has ended
	Err  error         // why it ended early; valid when done is closed
}

func NewEnd(node int) *End { return &End{Node: node, Done: make(chan struct{})} }

// Client is a process as its agent serves it.
type Client struct {
	First, Ranks int         // of the threads that may call the agent
	Replies      *mem.Buffer // a slot for each of them
	Statuses     *mem.Buffer // the status page
	End          *End        // of the agent
}

// Has reports whether a thread may call the agent.
func (c *Client) Has(rank int) bool {
	return rank > AgentRank && rank >= c.First && rank < c.First+c.Ranks
}

// Slot returns the offset of a thread's slot in Replies.
func (c *Client) Slot(rank int) int { return (rank - c.First) * ReplySlot }

func (e *End) Gone(op Operation) error {
	if e.Err != nil {
		return fmt.Errorf("driver: %v: the agent of node %d has ended: %w: %w", op, e.Node, e.Err, host.ErrClosed)
	}
	return fmt.Errorf("driver: %v: the agent of node %d has ended: %w", op, e.Node, host.ErrClosed)
}

// AsyncError is an error that cannot be written into a descriptor.
type AsyncError struct {
	Code       layout.AsyncError
	VI         int    // index, -1 = none
	Generation uint32 // of the VI, to distinguish it from a later VI with its index
	Lost       int    // with code Overflow: number of dropped errors
}

// SetTheirs fills in the attributes that the other end of a connection reports.
func (r *Reply) SetTheirs(t connect.Attributes) {
	r.MaxTransferSize, r.Rights, r.Reliability = t.MaxTransferSize, t.Rights, t.Reliability
	r.Offers = uint8(len(t.Regions))
	for i, g := range t.Regions {
		r.Regions[i] = offered{Address: g.Address, Length: g.Length, Handle: g.Handle, Rights: g.Rights}
	}
}
