// SPDX-License-Identifier: Apache-2.0

package digests

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
	"hvia/bench/reproduce"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/sim/verilate"
)

// Frames, wakes and printed times equal those of the file. HVIA_LONG=1 repeats
// all runs, as `make digests` does, and the short ones with every clock edge.
func TestDigests(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := DefaultConfig()
	c.Short = !benchtest.Long()
	areRecorded(t, c)
	if benchtest.Long() {
		c.Short, c.NoSkip = true, true
		areRecorded(t, c)
	}
}

func areRecorded(t *testing.T, c Config) {
	was, err := Read()
	require.NoError(t, err)
	is, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.NotEmpty(t, is.Runs)
	var text bytes.Buffer
	list := is.Differences(was, !c.Short)
	require.NoError(t, WriteDifferences(&text, list))
	require.Empty(t, list, "CONTRIBUTING.md, Simulated times, says which commits may change what; not as in %s:\n%s", File, &text)
}

// One more clock in the MAC moves frames, and with them the hosts' wakes. An
// unused parameter moves neither.
func TestDigestsSeeWhatMoved(t *testing.T) {
	benchtest.TakesSeconds(t)
	digest := func(change func(*reproduce.Config)) rig.RunDigest {
		c := reproduce.DefaultConfig()
		c.Iterations, c.Warmup, c.Background = 1, 0, false
		change(&c)
		m, err := reproduce.Measure(t.Context(), c, rig.RDMAWrite, []int{4})
		require.NoError(t, err)
		return m.Digest
	}
	plain := digest(func(*reproduce.Config) {})
	require.Len(t, plain.Frames, 16)
	require.Len(t, plain.Wakes, 16)
	require.NotEqual(t, plain.Frames, plain.Wakes)
	require.Equal(t, plain, digest(func(*reproduce.Config) {}))
	b, err := costs.New(reproduce.DefaultConfig().Profile, nil)
	require.NoError(t, err)
	slower := digest(func(c *reproduce.Config) {
		c.Params = map[string]int64{"MacReactClocks": b.Value("MacReactClocks") + 1}
	})
	require.NotEqual(t, plain.Frames, slower.Frames)
	require.NotEqual(t, plain.Wakes, slower.Wakes)
	// No time of this run depends on the host's TCP/IP.
	same := digest(func(c *reproduce.Config) {
		c.Params = map[string]int64{"TcpWakeTime": b.Value("TcpWakeTime") + 1}
	})
	require.Equal(t, plain, same)
}

func TestDigestDifferences(t *testing.T) {
	run := func(name, frames, wakes string, values map[string]int64) Record {
		return Record{Profile: "p", Workload: "w", Run: name, Parts: report.Parts{Frames: frames, Wakes: wakes}, Values: values}
	}
	was := &Table{Schema: Schema, Runs: []Record{
		run("same", "f", "w", map[string]int64{"4 half_rtt_ps": 12}), run("wakes", "f", "w", nil), run("frames", "f", "w", nil), run("time", "f", "w", map[string]int64{"a": 1, "b": 2}), run("gone", "f", "w", nil),
	}}
	var stored bytes.Buffer
	require.NoError(t, was.WriteJSON(&stored))
	read := &Table{}
	require.NoError(t, json.Unmarshal(stored.Bytes(), read))
	require.Equal(t, was, read)
	require.Equal(t, 3+len(was.Runs)+2, bytes.Count(stored.Bytes(), []byte("\n")), "a line for each run:\n%s", &stored)

	is := &Table{Schema: Schema, Runs: []Record{
		was.Runs[0], run("wakes", "f", "W", nil), run("frames", "F", "w", nil), run("time", "f", "w", map[string]int64{"a": 1, "b": 3}), run("new", "f", "w", nil),
	}}
	d := func(run, value, was, is string) Difference {
		return Difference{"p", "w", run, value, was, is}
	}
	want := []Difference{
		d("wakes", "wakes", "w", "W"), d("frames", "frames", "f", "F"), d("time", "b", "2", "3"), d("new", "frames", "", "f"), d("new", "wakes", "", "w"),
	}
	require.Equal(t, want, is.Differences(read, false))
	require.Equal(t, append(want, d("gone", "frames", "f", ""), d("gone", "wakes", "w", "")), is.Differences(read, true))
	require.Empty(t, was.Differences(read, true))
	require.True(t, OnlyWakes(want[:1]))
	require.False(t, OnlyWakes(want[:2]))
	require.False(t, OnlyWakes(want[2:3]), "a time that moved is no matter of wakes")
	var text bytes.Buffer
	require.NoError(t, WriteDifferences(&text, want[:1]))
	require.Contains(t, text.String(), "p, w, wakes\n")
	require.Regexp(t, `wakes +was w +is W\n`, text.String())
}

func TestDigestsConfig(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"no profiles":          func(c *Config) { c.Profiles = nil },
		`no profile "x"`:       func(c *Config) { c.Profiles = []string{"x"} },
		"listed twice":         func(c *Config) { c.Profiles = append(c.Profiles, c.Profiles[0]) },
		"0 jobs: 1 to 64 are ": func(c *Config) { c.Jobs = 0 },
	} {
		c := DefaultConfig()
		spoil(&c)
		require.ErrorIs(t, c.Validate(), costs.ErrConfig)
		require.ErrorContains(t, c.Validate(), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, DefaultConfig())
	require.ErrorIs(t, err, context.Canceled)
}

// docs/reference/times.md has the times of the file. HVIA_UPDATE=1 rewrites it.
func TestTimesPage(t *testing.T) {
	root, err := verilate.Root()
	require.NoError(t, err)
	path := filepath.Join(root, "docs/reference/times.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	const begin, end = "<!-- printed by: hvia digests --times -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok, "%s has no %q", path, begin)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no %q", path, end)
	d, err := Read()
	require.NoError(t, err)
	var tables bytes.Buffer
	require.NoError(t, d.WriteTimes(&tables))
	require.Contains(t, tables.String(), "`hvia-ge-66`")
	if os.Getenv("HVIA_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+tables.String()+end+after), 0o644))
		return
	}
	require.Equal(t, tables.String(), old, "%s is not as recorded: 'HVIA_UPDATE=1 go test ./bench/digests -run TestTimesPage' writes it anew", path)
	d.Runs = d.Runs[1:]
	require.ErrorContains(t, d.WriteTimes(io.Discard), "no time of RDMA write, 4 bytes")
}
