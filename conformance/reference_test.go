// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/vipl"
)

// function is one of VIPL's 41 functions. returns are the statuses that VIPL
// lists and this provider returns; each has a row in functionRows. never names
// those that cannot occur, with the reason.
type function struct {
	name, goName string
	returns      []vipl.Status
	never        string
}

const noQOS = "VIP_INVALID_QOS (there is no quality of service)"

// functions in the order of vipl.h.
var functions = func() []function {
	const (
		ok, notDone, invalid, none = vipl.Success, vipl.ErrNotDone, vipl.ErrInvalidParameter, vipl.ErrResource
		late, reject, level, mtu   = vipl.ErrTimeout, vipl.ErrReject, vipl.ErrInvalidReliabilityLevel, vipl.ErrInvalidMTU
		ptag, read, descriptor     = vipl.ErrInvalidPtag, vipl.ErrInvalidRDMARead, vipl.ErrDescriptor
		state, names, noMatch      = vipl.ErrInvalidState, vipl.ErrNameService, vipl.ErrNoMatch
		unreachable                = vipl.ErrNotReachable
	)
	set := func(s ...vipl.Status) []vipl.Status { return s }
	return []function{
		{"OpenNic", "OpenNIC", set(ok, none, invalid), ""},
		{"CloseNic", "NIC.Close", set(ok, invalid), ""},
		{"QueryNic", "NIC.Query", set(ok), "VIP_INVALID_PARAMETER (it returns no error, and nothing for no handle)"},
		{"CreateVi", "NIC.CreateVI", set(ok, invalid, none, level, mtu, ptag, read), noQOS},
		{"DestroyVi", "VI.Destroy", set(ok, invalid, state, none), ""},
		{"QueryVi", "VI.Query", set(ok, invalid), ""},
		{"SetViAttributes", "VI.SetAttributes", set(ok, invalid, state, level, mtu, ptag, read), noQOS},
		{"ConnectWait", "NIC.ConnectWait", set(ok, late, none, invalid), ""},
		{"ConnectAccept", "ConnectionRequest.Accept", set(ok, invalid, level, mtu, late, state), noQOS + ", VIP_ERROR_RESOURCE (nothing is allocated)"},
		{"ConnectReject", "ConnectionRequest.Reject", set(ok, invalid), ""},
		{"ConnectRequest", "VI.ConnectRequest", set(ok, late, invalid, reject, noMatch, none, state, unreachable),
			noQOS + ", VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU (only the accepting side compares)"},
		{"Disconnect", "VI.Disconnect", set(ok, invalid), ""},
		{"ConnectPeerRequest", "VI.ConnectPeerRequest", set(ok, invalid, state), "VIP_ERROR_RESOURCE (nothing is allocated)"},
		{"ConnectPeerDone", "VI.ConnectPeerDone", set(ok, notDone, late, reject, level, mtu, invalid, state, unreachable), noQOS + ", VIP_NO_MATCH (a peer may ask until the timeout, then it is VIP_TIMEOUT)"},
		{"ConnectPeerWait", "VI.ConnectPeerWait", set(ok, late, reject, level, mtu, invalid, state, none, unreachable), noQOS + ", VIP_NO_MATCH (as ConnectPeerDone)"},
		{"CreatePtag", "NIC.CreatePtag", set(ok, none, invalid), ""},
		{"DestroyPtag", "NIC.DestroyPtag", set(ok, invalid, none, ptag), ""},
		{"RegisterMem", "NIC.RegisterMem", set(ok, none, invalid, ptag, read), ""},
		{"DeregisterMem", "NIC.DeregisterMem", set(ok, invalid), ""},
		{"QueryMem", "NIC.QueryMem", set(ok, invalid), ""},
		{"SetMemAttributes", "NIC.SetMemAttributes", set(ok, invalid, ptag, read), ""},
		{"PostSend", "VI.PostSend", set(ok, invalid, none), "VIP_INVALID_STATE (the descriptor completes as flushed)"},
		{"SendDone", "VI.SendDone", set(ok, notDone, descriptor, invalid), ""},
		{"SendWait", "VI.SendWait", set(ok, late, descriptor, invalid, none), ""},
		{"SendNotify", "VI.SendNotify", set(ok, invalid, none), ""},
		{"PostRecv", "VI.PostRecv", set(ok, invalid, none), "VIP_INVALID_STATE (the descriptor stays queued, or completes as flushed)"},
		{"RecvDone", "VI.RecvDone", set(ok, notDone, descriptor, invalid), ""},
		{"RecvWait", "VI.RecvWait", set(ok, late, descriptor, invalid, none), ""},
		{"RecvNotify", "VI.RecvNotify", set(ok, invalid, none), ""},
		{"CreateCQ", "NIC.CreateCQ", set(ok, invalid, none), ""},
		{"DestroyCQ", "CQ.Destroy", set(ok, invalid, none), ""},
		{"ResizeCQ", "CQ.Resize", set(ok, invalid, none), ""},
		{"CQDone", "CQ.Done", set(ok, notDone, invalid), ""},
		{"CQWait", "CQ.Wait", set(ok, late, invalid), ""},
		{"CQNotify", "CQ.Notify", set(ok, invalid), "VIP_ERROR_RESOURCE (only memory limits the handlers)"},
		{"ErrorCallback", "NIC.ErrorCallback", set(ok, invalid), ""},
		{"QuerySystemManagementInfo", "NIC.QuerySystemManagementInfo", set(ok, invalid), "VIP_ERROR_NOT_SUPPORTED (the only InfoType is supported)"},
		{"NSInit", "NIC.NSInit", set(ok, invalid), "VIP_ERROR_NAMESERVICE, VIP_ERROR_RESOURCE (the names exist from the start)"},
		{"NSGetHostByName", "NIC.NSGetHostByName", set(ok, names, invalid), ""},
		{"NSGetHostByAddr", "NIC.NSGetHostByAddr", set(ok, names, invalid), ""},
		{"NSShutdown", "NIC.NSShutdown", set(ok, names, invalid), ""},
	}
}()

// Every function has a row for each status it may return, and returns no other.
func TestFunctionRowsAreComplete(t *testing.T) {
	require.Len(t, functions, 41)
	seen := map[string]map[vipl.Status]bool{}
	whens := map[string]bool{}
	for _, r := range allCases() {
		if seen[r.Function] == nil {
			seen[r.Function] = map[vipl.Status]bool{}
		}
		seen[r.Function][r.Want] = true
		if r.Needs != nil {
			seen[r.Function][r.Needs.Status] = true
		}
		key := r.Function + ": " + r.When
		require.False(t, whens[key], "two rows are called '%s'", key)
		whens[key] = true
	}
	for _, f := range functions {
		want := map[vipl.Status]bool{}
		for _, s := range f.returns {
			want[s] = true
		}
		require.Equal(t, want, seen[f.name], "statuses in the rows of %s", f.name)
		delete(seen, f.name)
	}
	require.Empty(t, seen, "rows of functions that are not there")
}

const functionPage = "../docs/reference/vipl.md"

// handWritten starts the hand-written part of the page.
const handWritten = "\n## Decisions where VIA leaves room\n"

// The first part of the reference page is generated from the rows and the doc
// comments. HVIA_UPDATE=1 rewrites it.
func TestFunctionTable(t *testing.T) {
	var attributes vipl.NICAttributes
	runFake(t, driver.DeviceHvia, nil, func(e *Env) error { attributes = e.NIC.Query(); return nil }, func(*Env) error { return nil })
	page, err := os.ReadFile(functionPage)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), handWritten)
	require.True(t, ok, "%s has no line '%s'", functionPage, handWritten)
	want := functionReference(t, attributes) + handWritten + rest
	if os.Getenv("HVIA_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(functionPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "'HVIA_UPDATE=1 go test ./conformance -run TestFunctionTable' writes the page anew")
}

// packageDoc reads the documentation of package vipl.
func packageDoc(t *testing.T) *doc.Package {
	t.Helper()
	names, err := filepath.Glob("../vipl/*.go")
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, n, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, "hvia/vipl")
	require.NoError(t, err)
	return p
}

// synopsis is the first sentence of a function's documentation.
func synopsis(p *doc.Package, name string) string {
	of, method, isMethod := strings.Cut(name, ".")
	for _, typ := range p.Types {
		list := typ.Funcs
		if isMethod {
			if typ.Name != of {
				continue
			}
			list = typ.Methods
		}
		for _, f := range list {
			if f.Name == name || isMethod && f.Name == method {
				return p.Synopsis(f.Doc)
			}
		}
	}
	for _, f := range p.Funcs {
		if f.Name == name {
			return p.Synopsis(f.Doc)
		}
	}
	return ""
}

func functionReference(t *testing.T, a vipl.NICAttributes) string {
	p := packageDoc(t)
	var b strings.Builder
	b.WriteString(`# VIPL: functions, statuses, decisions

The 41 functions of VIPL and their names in Go. Each row of the lists is a call with the status that
it must return. ` + "`go test ./conformance -run TestFunctions`" + ` makes it on fake cards, on M-VIA and on
the card's RTL. ` + "`HVIA_UPDATE=1 go test ./conformance -run TestFunctionTable`" + ` generates this page up
to and including [Limits](#limits). In Go, a status is an error: ` + "`errors.Is`" + ` finds it, ` + "`errors.As`" + `
returns it as a Status; VIP_SUCCESS is nil. "No VI" and the like are nil, "destroyed" and "closed"
are handles of former objects. A row that names a device holds on that one only: hvia is the card,
mvia a plain NIC with VIA in the kernel.

`)
	b.WriteString("| VIPL | Go | what it does | statuses |\n|---|---|---|---|\n")
	for _, f := range functions {
		s := synopsis(p, f.goName)
		require.NotEmpty(t, s, "nothing is said about %s", f.goName)
		var list []string
		for _, r := range f.returns {
			list = append(list, strings.TrimPrefix(r.String(), "VIP_"))
		}
		fmt.Fprintf(&b, "| [Vip%s](#vip%s) | `%s` | %s | %s |\n", f.name, strings.ToLower(f.name), f.goName, s, strings.Join(list, ", "))
	}
	rows := allCases()
	for _, f := range functions {
		fmt.Fprintf(&b, "\n## Vip%s\n\n`%s`\n\n| status | when |\n|---|---|\n", f.name, f.goName)
		for _, s := range f.returns {
			var whens []string
			for _, r := range rows {
				lacking := r.Needs != nil && r.Needs.Status == s && r.Want != s
				if r.Function != f.name || r.Want != s && !lacking {
					continue
				}
				when := r.When
				if when == "" {
					when = "always"
				}
				switch {
				case lacking:
					when += fmt.Sprintf(" (the NIC has no %s)", r.Needs.Attribute)
				case r.Needs != nil:
					when += fmt.Sprintf(" (%s)", r.Needs.Attribute)
				case r.Only != "":
					when += fmt.Sprintf(" (%s)", r.Only)
				}
				whens = append(whens, when)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", s.String(), strings.Join(whens, "; "))
		}
		if f.never != "" {
			fmt.Fprintf(&b, "\nNever returned: %s.\n", strings.ReplaceAll(f.never, "), VIP", "),\nVIP"))
		}
	}
	b.WriteString("\n## Limits\n\nLimits of the default card with 1,024 regions (`driver.HostConfig.Regions`, at most 1,048,576).\nExceeding one returns VIP_ERROR_RESOURCE, or VIP_INVALID_MTU for the transfer size.\n\n| limit | value |\n|---|---|\n")
	for _, l := range []struct {
		name  string
		value uint64
		unit  string
	}{
		{"MaxVI", uint64(a.MaxVI), ""}, {"MaxDescriptorsPerQueue", uint64(a.MaxDescriptorsPerQueue), ", posted and not reaped"},
		{"MaxSegmentsPerDesc", uint64(a.MaxSegmentsPerDesc), " data segments"}, {"MaxTransferSize", uint64(a.MaxTransferSize), " bytes"},
		{"NativeMTU", uint64(a.NativeMTU), " bytes of a message in one frame"}, {"MaxCQ", uint64(a.MaxCQ), ""}, {"MaxCQEntries", uint64(a.MaxCQEntries), ""},
		{"MaxPtags", uint64(a.MaxPtags), ", each NIC handle has one of them"}, {"MaxRegisterRegions", uint64(a.MaxRegisterRegions), ""},
		{"MaxRegisterBytes", a.MaxRegisterBytes, " bytes"}, {"MaxRegisterBlockBytes", a.MaxRegisterBlockBytes, " bytes"},
		{"MaxDiscriminatorLen", uint64(a.MaxDiscriminatorLen), " bytes"}, {"MaxOfferedRegions", vipl.MaxOfferedRegions, ", not in VIPL"},
	} {
		fmt.Fprintf(&b, "| %s | %d%s |\n", l.name, l.value, l.unit)
	}
	require.False(t, slices.Contains(strings.Split(b.String(), "\n"), "<nil>"))
	return b.String()
}
