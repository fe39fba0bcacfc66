// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"slices"

	"hvia/driver"
	"hvia/host"
)

// The name service maps the names of the fabric's nodes to addresses: those of
// sim.Config.Nodes, else node0, node1 and so on. A node has one address.

func (n *NIC) nameService(op string) error {
	switch {
	case n == nil:
		return missing(op, "NIC handle")
	case n.closed.Load():
		return fail(op, ErrInvalidParameter, errNICClosed)
	case !n.names.Load():
		return fail(op, ErrNameService, errors.New("the name service is not in use: call NSInit"))
	}
	return nil
}

// NSInit starts the name service for this NIC handle; repeating it is harmless.
func (n *NIC) NSInit(*host.Thread) error {
	const op = "initialise name service"
	if n != nil && !n.closed.Load() {
		n.names.Store(true)
	}
	return n.nameService(op)
}

// NSShutdown stops the name service; the NIC stays open. ErrNameService if it
// was not in use, as for the other calls.
func (n *NIC) NSShutdown(*host.Thread) error {
	if err := n.nameService("shut name service down"); err != nil {
		return err
	}
	n.names.Store(false)
	return nil
}

// NSGetHostByName returns an address of the named node, without a
// discriminator. Index selects one of several; a node has only index 0.
// ErrNameService if there is none.
func (n *NIC) NSGetHostByName(t *host.Thread, name string, index int) (NetAddress, error) {
	op := fmt.Sprintf("get address %d of host '%s'", index, name)
	if err := n.nameService(op); err != nil {
		return NetAddress{}, err
	}
	if name == "" || index < 0 {
		return NetAddress{}, fail(op, ErrInvalidParameter, errors.New("give a name and an index from 0"))
	}
	node := slices.Index(n.host.Names(t), name)
	switch {
	case node < 0:
		return NetAddress{}, fail(op, ErrNameService, fmt.Errorf("the fabric's nodes are %q", n.host.Names(t)))
	case index > 0:
		return NetAddress{}, fail(op, ErrNameService, errors.New("it has one address"))
	}
	return At(node, ""), nil
}

// NSGetHostByAddr returns the name of the node with the host part of an
// address.
func (n *NIC) NSGetHostByAddr(t *host.Thread, a NetAddress) (string, error) {
	op := fmt.Sprintf("get name of %v", a.Host)
	if err := n.nameService(op); err != nil {
		return "", err
	}
	for node, name := range n.host.Names(t) {
		if driver.NodeMAC(node) == a.Host {
			return name, nil
		}
	}
	return "", fail(op, ErrNameService, fmt.Errorf("none of the fabric's %d nodes has it", len(n.host.Names(t))))
}

// Autodiscovery is VIP_SMI_AUTODISCOVERY, the only InfoType.
const Autodiscovery = 1

// QuerySystemManagementInfo lists the nodes. It returns a
// VIP_AUTODISCOVERY_LIST: the cables to the farthest node (1 between two nodes,
// 2 with a switch, 0 if alone), and the addresses of all nodes in order, this
// one included, without discriminators. ErrInvalidParameter for an InfoType
// other than Autodiscovery.
func (n *NIC) QuerySystemManagementInfo(t *host.Thread, kind int) (hops int, addresses []NetAddress, err error) {
	op := fmt.Sprintf("query system management information %d", kind)
	switch {
	case n == nil:
		return 0, nil, missing(op, "NIC handle")
	case n.closed.Load():
		return 0, nil, fail(op, ErrInvalidParameter, errNICClosed)
	case kind != Autodiscovery:
		return 0, nil, fail(op, ErrInvalidParameter, fmt.Errorf("want %d, autodiscovery", Autodiscovery))
	}
	for node := range n.host.Names(t) {
		addresses = append(addresses, At(node, ""))
	}
	return n.host.Hops(t), addresses, nil
}
