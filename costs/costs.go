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

// Board is a profile's numbers with those of a run in the place of some.
type Board struct {
	Profile  string
	Table    []params.Param // with what was replaced
	replaced map[string]int64
}

// New refuses what cannot be replaced without another build of the simulator.
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
			return Board{}, fmt.Errorf("%w: parameter %s cannot be replaced by %d: the RTL is built with it; those of the classes model and host can", ErrConfig, name, replaced[name])
		case replaced[name] < b.Table[k].Least || replaced[name] > b.Table[k].Most:
			return Board{}, fmt.Errorf("%w: parameter %s cannot be %d: %d to %d is possible", ErrConfig, name, replaced[name], b.Table[k].Least, b.Table[k].Most)
		}
		b.Table[k].Value = replaced[name]
	}
	return b, nil
}

// Value is that of a parameter of the table; asking for another one is a fault
// of this program.
func (b Board) Value(name string) int64 {
	for _, p := range b.Table {
		if p.Name == name {
			return p.Value
		}
	}
	panic("costs: no parameter " + name)
}

// Models are the replaced numbers of the simulator's models; the others are the host's.
func (b Board) Models() map[string]int64 {
	m := map[string]int64{}
	for _, p := range b.Table {
		if v, ok := b.replaced[p.Name]; ok && p.Class == params.Model {
			m[p.Name] = v
		}
	}
	return m
}

// Fabric describes the card of a fabric that runs.
func (b Board) Fabric() sim.Config { return sim.Config{Profile: b.Profile, Params: b.Models()} }

// Priors are the fitted parameters that had another value before the fit, with
// that value.
func (b Board) Priors() map[string]int64 {
	m := map[string]int64{}
	for _, p := range b.Table {
		if p.Prior != 0 && p.Value != p.Prior {
			m[p.Name] = p.Prior
		}
	}
	return m
}

// HostCosts is the cost model of a host of a profile ("" is the paper's card), card or
// plain NIC, with the parameters as they are: for programs that want the processor times of the experiments.
// It charges the card's interrupts as well, which the experiments themselves leave out
// where none lies on a message's path.
func HostCosts(profile string) (host.CostModel, error) {
	b, err := New(profile, nil)
	if err != nil {
		return nil, err
	}
	return b.hostCosts(), nil
}

// Costs fills the driver's cost model of a host with the card. What has no measured or
// printed value is free: the agent's privileged work. So are the card's interrupts: both lie on
// the path of no message. (To charge them would move when the first message begins, and
// with that all times by some nanoseconds, from another place between the clocks' edges.)
func (b Board) Costs() host.CostModel {
	c := b.hostCosts()
	c.interrupt = 0
	return c
}

// KernelCosts is the cost model of a host with a plain NIC, whose interrupts lie on the path
// of every message.
func (b Board) KernelCosts() host.CostModel { return b.hostCosts() }

func (b Board) hostCosts() hostCosts {
	at := func(name string) host.Time { return host.Time(b.Value(name)) }
	return hostCosts{
		post: at("HostPostTime"), poll: at("HostPollPeriod"), wait: at("HostReceiveWaitTime"), timeOfDay: at("HostTimeOfDayTime"),
		interrupt: at("HostInterruptTime"),
		kernel: host.KernelCosts{
			Trap: at("HostTrapTime"), Switch: at("HostSwitchTime"), SendPacket: at("HostPacketSendTime"), CopyByte: at("HostCopyTime"),
			Mvia: host.ProtocolCosts{ReceivePacket: at("MviaPacketTime"), Wake: at("MviaWakeTime")},
			Tcp:  host.ProtocolCosts{ReceivePacket: at("TcpPacketTime"), Wake: at("TcpWakeTime")},
		},
	}
}

// hostCosts is what a host processor's work takes in the experiments.
//
// RecvWait's work lies on the path of a message that is received, and is charged. That
// of SendWait is not: the sides of a ping-pong take their sends back while the
// message is under way (see pingPong.ping), beside every path; all that its cost could do
// there is to move the looks that follow, so that a figure fitted to receives
// would move RDMA writes by up to a look. Who polls the last byte of an RDMA write
// pays for the looks alone.
type hostCosts struct {
	post, poll, wait, timeOfDay, interrupt host.Time
	kernel                                 host.KernelCosts
}

var _ host.CostModel = hostCosts{}

func (c hostCosts) Post() host.Time          { return c.post }
func (c hostCosts) PollPeriod() host.Time    { return c.poll }
func (hostCosts) SendDone() host.Time        { return 0 }
func (c hostCosts) ReceiveDone() host.Time   { return c.wait }
func (c hostCosts) TimeOfDay() host.Time     { return c.timeOfDay }
func (hostCosts) AgentCall() host.Time       { return 0 }
func (hostCosts) PinPage() host.Time         { return 0 }
func (c hostCosts) Interrupt() host.Time     { return c.interrupt }
func (c hostCosts) Kernel() host.KernelCosts { return c.kernel }

// ErrConfig is what every refusal of a configuration wraps.
var ErrConfig = errors.New("bad configuration")
