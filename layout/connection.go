// SPDX-License-Identifier: Apache-2.0

package layout

// The agents' connection protocol. The initiator repeats Request until it is
// answered, the responder repeats Accept until it is confirmed, and a side that
// leaves a connection repeats Disconnect until it is acknowledged. Every other
// frame answers one that the other side repeats. So each side needs one timer,
// and a lost or duplicated frame costs a repetition.
//
// Peers both repeat PeerRequest. When both ask, the one with the smaller MAC
// address is the initiator and the other the responder, which answers with
// Accept or Reject.
var connectionSection = Section{
	Title: "Connection frames",
	Doc: "Messages between kernel agents, after the Ethernet header of frames with EtherTypeConnection. A frame names the connection by two " +
		"identifiers, each chosen by one agent and unique while the card is open; 0 = not known yet.",
	Constants: []Constant{
		{"ConnectionVersion", 1, 8, "version of the protocol; frames of another version are dropped"},
		{"MaxDiscriminator", 32, 16, "bytes of a discriminator"},
		{"MaxOfferedRegions", 8, 8, "regions that one side advertises with a connection"},
	},
	Enums: []Enum{
		{Name: "ConnectionType", Doc: "Kinds of connection frames.", Width: 8, Values: []Value{
			{"Request", 1, "initiator: asks for the program that waits at Discriminator; repeated until answered"},
			{"Pending", 2, "responder: a waiting program has the request and has not decided yet"},
			{"Accept", 3, "responder: its VI is connected; repeated until confirmed"},
			{"Confirm", 4, "initiator: its VI is connected too"},
			{"Reject", 5, "responder: the program rejected, or none waits; see Reason"},
			{"Disconnect", 6, "either: left the connection (repeated until acknowledged), or does not know it"},
			{"DisconnectAck", 7, "either: answer to Disconnect"},
			{"PeerRequest", 8, "either of two peers: asks for the peer that asks with the same discriminators; repeated until answered"},
		}},
		{Name: "ConnectionReason", Doc: "Why a frame was sent.", Width: 8, Values: []Value{
			{"None", 0, "no reason is needed"},
			{"NoMatch", 1, "no program waits at that discriminator"},
			{"Rejected", 2, "the program rejected"},
			{"Closed", 3, "the program disconnected or is gone"},
			{"TimedOut", 4, "the program's timeout for connecting expired"},
			{"Unknown", 5, "no connection of these identifiers is known here"},
			{"Resource", 6, "the agent cannot hold another request"},
			{"Failed", 7, "the card failed to connect the VI"},
			{"Reliability", 8, "peers: the reliability levels of the VIs differ"},
			{"TransferSize", 9, "peers: the largest transfer sizes of the VIs differ"},
		}},
	},
	Structs: []Struct{{
		Name: "ConnectionFrame", Doc: "A connection frame, at byte 14 of the Ethernet frame.", Endian: Big, Size: 104, Fields: []Field{
			{Name: "Version", Offset: 0, Width: 1, Doc: "ConnectionVersion"},
			{Name: "Type", Offset: 1, Width: 1, Doc: "ConnectionType"},
			{Name: "Reason", Offset: 2, Width: 1, Doc: "ConnectionReason"},
			{Name: "ToInitiator", Offset: 3, Width: 1, Doc: "1 = the receiver is the connection's initiator"},
			{Name: "Initiator", Offset: 4, Width: 4, Doc: "initiator's identifier"},
			{Name: "Responder", Offset: 8, Width: 4, Doc: "responder's identifier"},
			{Name: "VI", Offset: 12, Width: 2, Doc: "Request, PeerRequest, Accept: the sender's VI number, generation (bits 15:8) and index (7:0)"},
			{Name: "Reliability", Offset: 14, Width: 1, Doc: "Request, PeerRequest, Accept: Reliability"},
			{Name: "Rights", Offset: 15, Width: 1, Doc: "Request, PeerRequest, Accept: what the peer may do to the sender's VI", Bits: []Bits{
				{"RDMAWrite", 0, 1, "RDMA write"},
				{"RDMARead", 1, 1, "RDMA read"},
			}},
			{Name: "MaxTransferSize", Offset: 16, Width: 4, Doc: "Request, PeerRequest, Accept: the sender's VI attribute"},
			{Name: "Sequence", Offset: 20, Width: 4, Doc: "Request, PeerRequest, Accept: sequence number of the sender's first VIA frame"},
			{Name: "DiscriminatorLength", Offset: 24, Width: 2, Doc: "Request, PeerRequest: bytes of Discriminator in use"},
			{Name: "LocalLength", Offset: 26, Width: 2, Doc: "Request, PeerRequest: bytes of LocalDiscriminator in use"},
			{Name: "Window", Offset: 28, Width: 1, Doc: "Request, PeerRequest, Accept of a reliable level: frames that the sender's card accepts before it acknowledges, 1 to 255"},
			{Name: "ReadLimit", Offset: 29, Width: 1, Doc: "Request, PeerRequest, Accept of a reliable level: RDMA reads that the sender's card answers at a time"},
			{Name: "Regions", Offset: 30, Width: 1, Doc: "Request, PeerRequest, Accept: how many OfferedRegions follow the frame, at most MaxOfferedRegions; 0 in all others"},
			{Name: "Reserved", Offset: 31, Width: 1, Doc: "zero"},
			{Name: "Discriminator", Offset: 32, Width: 32, Bytes: true, Doc: "Request, PeerRequest: the requested address, zero-padded"},
			{Name: "LocalDiscriminator", Offset: 64, Width: 32, Bytes: true, Doc: "Request, PeerRequest: the initiator's address, zero-padded"},
			{Name: "Cookie", Offset: 96, Width: 8, Doc: "chosen by the initiator for this run of its card, repeated in every answer: frames of an earlier run of either card do not match"},
		},
	}, {
		Name: "OfferedRegion", Doc: "Memory that the sender's program advertises to its peer, after a ConnectionFrame.", Endian: Big, Size: 24, Fields: []Field{
			{Name: "Address", Offset: 0, Width: 8, Doc: "virtual address of the first byte, at the sender"},
			{Name: "Length", Offset: 8, Width: 8, Doc: "bytes, 1 or more"},
			{Name: "Handle", Offset: 16, Width: 4, Doc: "memory handle, not 0"},
			{Name: "Rights", Offset: 20, Width: 1, Doc: "what a peer may do to the region", Bits: []Bits{
				{"RDMAWrite", 0, 1, "RDMA write"},
				{"RDMARead", 1, 1, "RDMA read"},
			}},
			{Name: "Reserved", Offset: 21, Width: 3, Bytes: true, Doc: "zero"},
		},
	}},
}
