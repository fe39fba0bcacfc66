// SPDX-License-Identifier: Apache-2.0

// Command rdmawrite sends one RDMA write from one simulated host to another.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

const message = "hello, remote memory"

// client opens its NIC, registers a buffer, connects and writes.
func client(t *host.Thread, h *driver.Host) error {
	e, err := vipl.OpenEndpoint(t, h, 4096)
	if err != nil {
		return err
	}
	if err := e.Dial(t, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: "greeting"}, host.Second); err != nil {
		return err
	}
	n := copy(e.Bytes(), message)
	return e.Write(t, 0, n, 1000, host.Second)
}

// server finds the message in its memory: nothing else tells it.
func server(t *host.Thread, h *driver.Host) error {
	e, err := vipl.OpenEndpoint(t, h, 4096)
	if err != nil {
		return err
	}
	if err := e.Accept(t, "greeting", host.Second); err != nil {
		return err
	}
	const last = len(message) - 1
	if err := e.Poll(t, 1000+last, message[last], host.Second); err != nil {
		return err
	}
	fmt.Printf("%s\n", e.Bytes()[1000:1000+len(message)])
	return nil
}

func run(ctx context.Context, d driver.Device) error {
	return driver.Run(ctx, driver.RunConfig{Device: d}, driver.Program{Node: 0, Name: "client", Main: client}, driver.Program{Node: 1, Name: "server", Main: server})
}

var device = flag.String("device", string(driver.DeviceHvia), "what the hosts have: hvia, the card; or mvia, a plain NIC with VIA in the kernel")

func main() {
	flag.Parse()
	if err := run(context.Background(), driver.Device(*device)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
