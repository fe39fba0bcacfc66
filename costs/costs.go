// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"hvia/host"
	"hvia/params"
	"hvia/sim"
)

// Board has the numbers of a profile, some of them replaced for a run.
type Board struct {
	Profile  string
	Table    []params.Param // with the replacements
	replaced map[string]int64
}

// New returns the board of a profile with replaced numbers. It fails with
// ErrConfig for a parameter that only another build of the simulator can
// change.
func New(profile string, replaced map[string]int64) (Board, error) {
	set, err := params.ForProfile(profile)
	if err != nil {
		return Board{}, err
	}
	b := Board{profile, set.Table(), replaced}
	for _, name := range slices.Sorted(maps.Keys(replaced)) {
		k := slices.IndexFunc(b.Table, func(p params.Param) bool { return p.Name == name })
		switch {
		case k < 0:
			return Board{}, fmt.Errorf("%w: no parameter %q to replace: 'docs/reference/params.md' lists them", ErrConfig, name)
		case !b.Table[k].Replaceable():
			return Board{}, fmt.Errorf("%w: parameter %s cannot be replaced by %d: the %s is built with it; those of the classes model and host can", ErrConfig, name, replaced[name],
				map[params.Class]string{params.Elaboration: "RTL", params.Driver: "driver"}[b.Table[k].Class])
		case replaced[name] < b.Table[k].Least || replaced[name] > b.Table[k].Most:
			return Board{}, fmt.Errorf("%w: parameter %s cannot be %d: %d to %d is possible", ErrConfig, name, replaced[name], b.Table[k].Least, b.Table[k].Most)
		}
		b.Table[k].Value = replaced[name]
	}
	return b, nil
}

// Value returns a parameter of the table; it panics if there is none of that
// name.
func (b Board) Value(name string) int64 {
	for _, p := range b.Table {
		if p.Name == name {
			return p.Value
		}
	}
	panic("costs: no parameter " + name)
}

// Models returns the replaced parameters of the simulator's models; the others
// are the host's.
func (b Board) Models() map[string]int64 {
	m := map[string]int64{}
	for _, p := range b.Table {
		if v, ok := b.replaced[p.Name]; ok && p.Class == params.Model {
			m[p.Name] = v
		}
	}
	return m
}

// Fabric returns the simulator configuration of a fabric with this card.
func (b Board) Fabric() sim.Config { return sim.Config{Profile: b.Profile, Params: b.Models()} }

// Priors returns, for each fitted parameter that differs from its value before
// the fit, that earlier value.
func (b Board) Priors() map[string]int64 {
	m := map[string]int64{}
	for _, p := range b.Table {
		if p.Prior != 0 && p.Value != p.Prior {
			m[p.Name] = p.Prior
		}
	}
	return m
}

// HostCosts returns the experiments' processor times for other programs. It
// serves hosts with the card or a plain NIC, and uses the unchanged parameters
// of a profile ("" is the paper's card). Unlike Board.Costs it charges the
// card's interrupts.
func HostCosts(profile string) (host.CostModel, error) {
	b, err := New(profile, nil)
	if err != nil {
		return host.CostModel{}, err
	}
	return b.hostCosts(), nil
}

// Costs returns the driver's cost model of a host with the card. The agent's
// privileged work is free (it has no measured or printed value), and so are the
// card's interrupts. Neither lies on the path of a message.
func (b Board) Costs() host.CostModel {
	c := b.hostCosts()
	c.Interrupt = 0
	return c
}

// KernelCosts returns the cost model of a host with a plain NIC, whose
// interrupts lie on the path of every message.
func (b Board) KernelCosts() host.CostModel { return b.hostCosts() }

// hostCosts returns the processor times of a host in the experiments.
//
// RecvWait's work lies on the path of a received message and is charged.
// SendWait's is not: a ping-pong reaps its send while the message is in flight
// (see pingPong.ping), so the work delays no message. Charging it would only
// delay later polls, and so the detection of RDMA writes, by up to a poll
// period. A program that polls the last byte of an RDMA write pays only for the
// polls.
func (b Board) hostCosts() host.CostModel {
	at := func(name string) host.Time { return host.Time(b.Value(name)) }
	return host.CostModel{
		Post: at("HostPostTime"), Poll: at("HostPollPeriod"), ReceiveDone: at("HostReceiveWaitTime"), TimeOfDay: at("HostTimeOfDayTime"),
		Interrupt: at("HostInterruptTime"),
		Kernel: host.KernelCosts{
			Trap: at("HostTrapTime"), Switch: at("HostSwitchTime"), SendPacket: at("HostPacketSendTime"), CopyByte: at("HostCopyTime"),
			Mvia: host.ProtocolCosts{ReceivePacket: at("MviaPacketTime"), Wake: at("MviaWakeTime")},
			Tcp:  host.ProtocolCosts{ReceivePacket: at("TcpPacketTime"), Wake: at("TcpWakeTime")},
		},
	}
}

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("bad configuration")
