// SPDX-License-Identifier: Apache-2.0

package hvia_test

import (
	"context"
	"errors"
	"fmt"

	"hvia"
	"hvia/vipl"
)

// run runs a program on each of two hosts.
func run(client, server func(t *hvia.Thread, h *hvia.Host) error) {
	err := hvia.Run(context.Background(), hvia.Config{},
		hvia.Program{Node: 0, Name: "client", Main: client},
		hvia.Program{Node: 1, Name: "server", Main: server})
	if err != nil {
		fmt.Println(err)
	}
}

// connected opens an endpoint on each of two hosts, connects them and calls a
// function with each.
func connected(c hvia.EndpointConfig, client, server func(t *hvia.Thread, e *hvia.Endpoint) error) {
	run(func(t *hvia.Thread, h *hvia.Host) error {
		e, err := hvia.OpenEndpoint(t, h, c)
		if err != nil {
			return err
		}
		if err := e.Dial(t, hvia.At(1, "example"), hvia.Second); err != nil {
			return err
		}
		return client(t, e)
	}, func(t *hvia.Thread, h *hvia.Host) error {
		e, err := hvia.OpenEndpoint(t, h, c)
		if err != nil {
			return err
		}
		if err := e.Accept(t, "example", hvia.Second); err != nil {
			return err
		}
		return server(t, e)
	})
}

// A program runs on a thread of its host. It may run alone.
func ExampleRun() {
	err := hvia.Run(context.Background(), hvia.Config{}, hvia.Program{Main: func(t *hvia.Thread, h *hvia.Host) error {
		fmt.Println("a program on node", h.Node())
		return t.Sleep(3 * hvia.Microsecond)
	}})
	fmt.Println(err)
	// Output:
	// a program on node 0
	// <nil>
}

// A NIC handle has the attributes of the NIC, and creates VIs.
func ExampleOpenNIC() {
	err := hvia.Run(context.Background(), hvia.Config{}, hvia.Program{Main: func(t *hvia.Thread, h *hvia.Host) error {
		nic, err := hvia.OpenNIC(t, h)
		if err != nil {
			return err
		}
		vi, err := nic.CreateVI(t, hvia.VIAttributes{ReliabilityLevel: hvia.ReliableDelivery})
		if err != nil {
			return err
		}
		info, err := vi.Query(t)
		fmt.Println(nic.Query().Name, "moves up to", info.Attributes.MaxTransferSize, "bytes at once; the VI is", info.State)
		return errors.Join(err, nic.Close(t))
	}})
	fmt.Println(err)
	// Output:
	// hvia0 moves up to 65536 bytes at once; the VI is Idle
	// <nil>
}

// The NIC accesses only registered memory, with the rights of its registration.
func ExampleRegion() {
	err := hvia.Run(context.Background(), hvia.Config{}, hvia.Program{Main: func(t *hvia.Thread, h *hvia.Host) error {
		nic, err := hvia.OpenNIC(t, h)
		if err != nil {
			return err
		}
		buffer, err := nic.Alloc(t, 10_000)
		if err != nil {
			return err
		}
		region, err := nic.RegisterBuffer(t, buffer, hvia.MemAttributes{EnableRDMAWrite: true})
		if err != nil {
			return err
		}
		s := region.Segment(4096, 100)
		fmt.Println(s.Length, "bytes at", s.Address-region.Address())
		fmt.Println("free before deregister:", errors.Is(nic.Free(t, buffer), vipl.ErrResource))
		return errors.Join(region.Deregister(t), nic.Free(t, buffer))
	}})
	fmt.Println(err)
	// Output:
	// 100 bytes at 4096
	// free before deregister: true
	// <nil>
}

// A message arrives in a receive that the peer has posted.
func ExampleEndpoint_Send() {
	connected(hvia.EndpointConfig{}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		if err := e.Send(t, []byte("a question"), hvia.Second); err != nil {
			return err
		}
		answer, err := e.Recv(t, hvia.Second)
		fmt.Printf("client: %s\n", answer)
		return err
	}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		question, err := e.Recv(t, hvia.Second)
		if err != nil {
			return err
		}
		fmt.Printf("server: %s\n", question)
		return e.Send(t, []byte("an answer"), hvia.Second)
	})
	// Output:
	// server: a question
	// client: an answer
}

// An RDMA write changes the peer's memory. The peer's program is not notified:
// it polls the last byte.
func ExampleEndpoint_Write() {
	connected(hvia.EndpointConfig{}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		copy(e.Bytes(), "written!")
		return e.Write(t, 0, 8, 1000, hvia.Second)
	}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		err := e.Poll(t, 1007, '!', hvia.Second)
		fmt.Printf("%s\n", e.Bytes()[1000:1008])
		return err
	})
	// Output: written!
}

// An RDMA read reads the peer's memory without its program. It needs a reliable
// level, the same at both ends.
func ExampleEndpoint_Read() {
	connected(hvia.EndpointConfig{ReliabilityLevel: hvia.ReliableDelivery}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		if _, err := e.Recv(t, hvia.Second); err != nil { // the peer is ready
			return err
		}
		err := e.Read(t, 100, 9, 0, hvia.Second)
		fmt.Printf("%s\n", e.Bytes()[:9])
		return errors.Join(err, e.Send(t, nil, hvia.Second))
	}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		copy(e.Bytes()[100:], "read this")
		if err := e.Send(t, nil, hvia.Second); err != nil {
			return err
		}
		_, err := e.Recv(t, hvia.Second)
		return err
	})
	// Output: read this
}

// At a reliable level a descriptor of the send queue completes when its message
// has arrived, and an error breaks the connection.
func ExampleEndpointConfig() {
	connected(hvia.EndpointConfig{ReliabilityLevel: hvia.ReliableDelivery}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		fmt.Println("arrived:", e.Send(t, []byte("ok"), hvia.Second) == nil)
		if err := e.Buffer.Deregister(t); err != nil {
			return err
		}
		fmt.Println(errors.Is(e.Write(t, 0, 1, 0, hvia.Second), hvia.ErrDescriptor))
		info, err := e.VI.Query(t)
		fmt.Println("the VI is in state", info.State)
		return err
	}, func(t *hvia.Thread, e *hvia.Endpoint) error {
		_, err := e.Recv(t, hvia.Second)
		return err
	})
	// Output:
	// arrived: true
	// true
	// the VI is in state Error
}

// A completion queue collects the completions of many VIs.
func ExampleCQ() {
	run(func(t *hvia.Thread, h *hvia.Host) error {
		e, err := hvia.OpenEndpoint(t, h, hvia.EndpointConfig{})
		if err != nil {
			return err
		}
		if err := e.Dial(t, hvia.At(1, "queue"), hvia.Second); !errors.Is(err, hvia.ErrReject) {
			return err // the server is not an endpoint
		}
		return nil
	}, func(t *hvia.Thread, h *hvia.Host) error {
		nic, err := hvia.OpenNIC(t, h)
		if err != nil {
			return err
		}
		cq, err := nic.CreateCQ(t, 16)
		if err != nil {
			return err
		}
		vi, err := nic.CreateVI(t, hvia.VIAttributes{RecvCQ: cq})
		if err != nil {
			return err
		}
		buffer, err := nic.Alloc(t, 4096)
		if err != nil {
			return err
		}
		region, err := nic.RegisterBuffer(t, buffer, hvia.MemAttributes{})
		if err != nil {
			return err
		}
		receive, err := region.Descriptor(0, 1)
		if err != nil {
			return err
		}
		if err := errors.Join(receive.SetReceive(region.Segment(64, 1000)), vi.PostRecv(t, receive)); err != nil {
			return err
		}
		r, err := nic.ConnectWait(t, hvia.At(1, "queue"), hvia.Second)
		if err != nil {
			return err
		}
		if err := r.Accept(t, vi); err != nil {
			return err
		}
		// The client disconnects: the receive completes as flushed.
		c, err := cq.Wait(t, hvia.Second)
		if err != nil {
			return err
		}
		d, err := c.Done(t)
		fmt.Println("this VI:", c.VI == vi, "receive queue:", c.Receive, "status:", d.Status(), "error:", errors.Is(err, hvia.ErrDescriptor))
		return nil
	})
	// Output: this VI: true receive queue: true status: flushed error: true
}

// errors.Is finds a status, errors.As the Error.
func ExampleError() {
	err := hvia.Run(context.Background(), hvia.Config{}, hvia.Program{Main: func(t *hvia.Thread, h *hvia.Host) error {
		nic, err := hvia.OpenNIC(t, h)
		if err != nil {
			return err
		}
		vi, err := nic.CreateVI(t, hvia.VIAttributes{})
		if err != nil {
			return err
		}
		_, err = vi.ConnectRequest(t, hvia.Address{}, hvia.At(7, "nobody"), 10*hvia.Millisecond)
		var e *hvia.Error
		if errors.As(err, &e) {
			fmt.Println(e.Status, "of this VI:", e.VI == vi)
		}
		fmt.Println(errors.Is(err, hvia.ErrTimeout))
		return nil
	}})
	fmt.Println(err)
	// Output:
	// timeout of this VI: true
	// true
	// <nil>
}

// A process joins a fabric that "hvia up" has started, as one of its nodes.
// Other processes are the other nodes.
func ExampleJoin() {
	p, err := hvia.Join(context.Background(), hvia.JoinConfig{Node: 0, Name: "reader"})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := p.Thread(context.Background(), "main")
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := hvia.OpenEndpoint(t, p.Host(), hvia.EndpointConfig{})
	if err == nil {
		err = e.Accept(t, "example", hvia.Second)
	}
	fmt.Println(errors.Join(err, p.Close()))
}
