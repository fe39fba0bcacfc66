// SPDX-License-Identifier: Apache-2.0

// Command rdmawrite sends one RDMA write from one simulated host to another.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"hvia"
)

const message = "hello, remote memory"

// client opens its NIC, registers a buffer, connects and writes.
func client(t *hvia.Thread, h *hvia.Host) error {
	e, err := hvia.OpenEndpoint(t, h, hvia.EndpointConfig{})
	if err != nil {
		return err
	}
	if err := e.Dial(t, hvia.At(1, "greeting"), hvia.Second); err != nil {
		return err
	}
	n := copy(e.Bytes(), message)
	return e.Write(t, 0, n, 1000, hvia.Second)
}

// server finds the message in its memory. Nothing else notifies it.
func server(t *hvia.Thread, h *hvia.Host) error {
	e, err := hvia.OpenEndpoint(t, h, hvia.EndpointConfig{})
	if err != nil {
		return err
	}
	if err := e.Accept(t, "greeting", hvia.Second); err != nil {
		return err
	}
	const last = len(message) - 1
	if err := e.Poll(t, 1000+last, message[last], hvia.Second); err != nil {
		return err
	}
	fmt.Printf("%s\n", e.Bytes()[1000:1000+len(message)])
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
