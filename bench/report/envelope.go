// SPDX-License-Identifier: Apache-2.0

package report

import "fmt"

// Envelope is the head of every report's JSON. The command's parameters and
// results follow it. All but Wall and Error repeats bit for bit for one
// version, command line and environment.
type Envelope struct {
	Schema string `json:"schema"` // name and version of the format

	// Complete sets these.
	Tool    string   `json:"tool,omitempty"`
	Version string   `json:"version,omitempty"`
	Argv    []string `json:"argv,omitempty"`

	Environment Hashes   `json:"environment"`
	Wall        Wall     `json:"wall,omitzero"`
	Error       *failure `json:"error,omitempty"` // why the report is not complete
}

// Complete adds what the command knows: its version and arguments, and why the
// run failed, if it did.
func (e *Envelope) Complete(version string, argv []string, failed error) {
	e.Tool, e.Version, e.Argv = "hvia", version, argv
	if failed != nil {
		e.Error = &failure{failed.Error()}
	}
}

// Sources is the line of a text that names the sources of the run.
func (e *Envelope) Sources() string {
	h := e.Environment
	return fmt.Sprintf("layout %s  params %s  rtl %s\n", h.Layout, h.Params, h.RTL)
}

// Parameters are those that every experiment has, and, of some, the numbers of
// the profile in this run.
type Parameters struct {
	Profile string      `json:"profile"`
	Seed    uint64      `json:"seed"`
	Numbers []Parameter `json:"numbers,omitempty"`
}

// Hashes says which layouts, numbers and RTL a result belongs to, each as 16
// hexadecimal digits.
type Hashes struct {
	Layout string `json:"layout"`
	Params string `json:"params"`
	RTL    string `json:"rtl"`
}

// Wall is everything that depends on the machine.
type Wall struct {
	BuildSeconds float64   `json:"build_seconds"` // of the simulator, whenever it was built
	Seconds      float64   `json:"seconds"`       // of the experiments, without the build
	RDMAWrite    []WallRow `json:"rdma_write,omitempty"`
	SendReceive  []WallRow `json:"send_receive,omitempty"`
	Mvia         []WallRow `json:"mvia,omitempty"`
	Tcp          []WallRow `json:"tcp,omitempty"`
}

// WallRow is the wall time of one message length. Cycles are core clocks of
// simulated time, including those skipped because all was quiescent.
type WallRow struct {
	Size            int     `json:"size"`
	Seconds         float64 `json:"seconds"`
	Cycles          int64   `json:"simulated_cycles"`
	CyclesPerSecond float64 `json:"cycles_per_s"`
}

type failure struct {
	Message string `json:"message"`
}
