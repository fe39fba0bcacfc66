// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
)

func TestPeerJob(t *testing.T) {
	c := DefaultConfig()
	c.Progress = func(rig.Progress) {}
	want := peerJob{Config: c, Exchange: rig.SendReceive, Sizes: []int{4, 65536}, Path: "/some/where.sock"}
	b, err := json.Marshal(want)
	require.NoError(t, err)
	got, err := decodePeerJob(b)
	require.NoError(t, err)
	want.Config.Progress = nil
	require.Equal(t, want, got)

	for _, tt := range []struct {
		name   string
		change func(*peerJob)
		want   string
	}{
		{"configuration", func(j *peerJob) { j.Config.Iterations = 0 }, "0 iterations"},
		{"profile", func(j *peerJob) { j.Config.Profile = "other" }, `no profile "other"`},
		{"size", func(j *peerJob) { j.Sizes = []int{4, 5} }, "size 5 is not one of"},
		{"negative size", func(j *peerJob) { j.Sizes = []int{-1} }, "size -1"},
		{"no sizes", func(j *peerJob) { j.Sizes = nil }, "both are needed"},
		{"exchange", func(j *peerJob) { j.Exchange = "shouting" }, `exchange "shouting"`},
		{"no path", func(j *peerJob) { j.Path = "" }, "both are needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := want
			tt.change(&j)
			b, err := json.Marshal(j)
			require.NoError(t, err)
			_, err = decodePeerJob(b)
			require.ErrorIs(t, err, costs.ErrConfig)
			require.ErrorContains(t, err, "serve the second host: ")
			require.ErrorContains(t, err, tt.want)
		})
	}
	for _, text := range []string{"", "{", "null", "[]", `"x"`, `{"Config":{"Sizes":"all"}}`} {
		_, err := decodePeerJob([]byte(text))
		require.ErrorContains(t, err, "serve the second host: ", "%q", text)
	}
}

// A process that finds no fabric names the socket.
func TestServePeerWithoutAFabric(t *testing.T) {
	path := t.TempDir() + "/none.sock"
	job, err := json.Marshal(peerJob{Config: DefaultConfig(), Exchange: rig.RDMAWrite, Sizes: []int{4}, Path: path})
	require.NoError(t, err)
	err = ServePeer(t.Context(), job)
	require.ErrorIs(t, err, bridge.ErrNoSimulator)
	require.ErrorContains(t, err, path)

	// As a process, it returns its message with the exit code.
	p, err := startPeer(t.Context(), peerJob{Config: DefaultConfig(), Exchange: rig.RDMAWrite, Sizes: []int{4}, Path: path})
	require.NoError(t, err)
	begin := time.Now()
	err = p.wait()
	require.ErrorContains(t, err, "the second host: exit status 1: ")
	require.ErrorContains(t, err, path)
	require.Less(t, time.Since(begin), 30*time.Second)
	require.Equal(t, err, p.wait(), "asked again it says the same")
}

func FuzzPeerJob(f *testing.F) {
	good, err := json.Marshal(peerJob{Config: DefaultConfig(), Exchange: rig.RDMAWrite, Sizes: []int{4}, Path: "p"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"Config":{"Profile":"hvia-ge","Sizes":[1],"Iterations":1,"Processes":2},"Exchange":"RDMA write","Sizes":[1],"Path":"x"}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := decodePeerJob(b)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "serve the second host: ") {
				t.Fatal(err)
			}
			return
		}
		if j.Path == "" || len(j.Sizes) == 0 || j.Config.Validate() != nil {
			t.Fatalf("%+v", j)
		}
		for _, s := range j.Sizes {
			if s < 1 || s > rig.MaxSize {
				t.Fatalf("size %d", s)
			}
		}
	})
}

func TestVerdict(t *testing.T) {
	for _, v := range []verdict{{}, {255, 1 << 20, host.Account{1, 2, 3}, ""}, {3, 4, host.Account{host.LayerAgent: 1 << 40}, "byte 7 of 9"}} {
		got, err := decodeVerdict(v.encode())
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	long := verdict{1, 2, host.Account{}, strings.Repeat("x", 2*layout.BridgeMaxMessage)}
	require.Len(t, long.encode(), layout.BridgeMaxMessage, "as much as a message takes")
	_, err := decodeVerdict(make([]byte, verdictHead-1))
	require.ErrorContains(t, err, fmt.Sprintf("a verdict of %d bytes", verdictHead-1))
}
