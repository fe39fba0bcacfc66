// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

func TestDemoText(t *testing.T) {
	r := &DemoReport{Schema: DemoSchema, Profile: "hvia-ge", Seed: 1, Size: 64, Verified: true, Steps: []DemoStep{
		{TimePs: 0, Node: 0, Where: "program", What: "rings the doorbell"},
		{TimePs: 390_000, Node: 0, Where: "doorbell", What: "commits VI 1"},
	}}
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	require.Equal(t, `One RDMA write of 64 bytes, simulated time (profile hvia-ge, seed 1)

          us        +us  node  where              what
       0.000      0.000  0     program            rings the doorbell
       0.390      0.390  0     doorbell           commits VI 1

verified: all 64 bytes are in place and none beside them changed
`, b.String())
	r.Verified, r.Fault = false, "byte 3"
	b.Reset()
	require.NoError(t, r.WriteText(&b))
	require.Contains(t, b.String(), "FAIL: the receiver's memory is not what was sent: byte 3")
}

func TestConfigs(t *testing.T) {
	require.NoError(t, DefaultReproduceConfig().Validate())
	require.NoError(t, DefaultDemoConfig().Validate())
	tests := []struct {
		change func(*ReproduceConfig)
		want   string
	}{
		{func(c *ReproduceConfig) { c.Profile = "hvia-xx" }, `no profile "hvia-xx"`},
		{func(c *ReproduceConfig) { c.Sizes = nil }, "no sizes"},
		{func(c *ReproduceConfig) { c.Sizes = []int{4, 0} }, "size 0: 1 to 65536"},
		{func(c *ReproduceConfig) { c.Sizes = []int{MaxSize + 1} }, "size 65537"},
		{func(c *ReproduceConfig) { c.Sizes = []int{4, 8, 4} }, "size 4 is listed twice"},
		{func(c *ReproduceConfig) { c.Iterations = 0 }, "0 iterations"},
		{func(c *ReproduceConfig) { c.Warmup = -1 }, "-1 warm-up"},
		{func(c *ReproduceConfig) { c.Processes = 3 }, "3 processes"},
	}
	for _, tt := range tests {
		c := DefaultReproduceConfig()
		tt.change(&c)
		err := c.Validate()
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, tt.want)
	}
	d := DefaultDemoConfig()
	d.Size = -1
	require.ErrorIs(t, d.Validate(), ErrConfig)
}

func TestRTLHash(t *testing.T) {
	_, err := RTLHash("")
	require.ErrorContains(t, err, "no checkout given")
	root := t.TempDir()
	_, err = RTLHash(root)
	require.ErrorContains(t, err, "hash the RTL")
	write := func(name, body string) {
		path := filepath.Join(root, "rtl", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(body), 0o644))
	}
	seen := map[string]string{}
	step := func(what string) {
		h, err := RTLHash(root)
		require.NoError(t, err)
		require.Len(t, h, 16)
		require.NotContains(t, seen, h, "%s gives the hash of %s", what, seen[h])
		seen[h] = what
	}
	write("readme.txt", "no RTL")
	_, err = RTLHash(root)
	require.ErrorContains(t, err, "no .sv files")
	write("a.sv", "one")
	step("one file")
	write("gen/b.sv", "")
	step("an empty file more")
	write("a.sv", "two")
	step("other contents")
	write("a.sv", "tw")
	write("gen/b.sv", "o")
	step("a byte moved")
	h, err := CollectHashes(root, params.Base)
	require.NoError(t, err)
	require.Len(t, h.Layout, 16)
	require.Len(t, h.Params, 16)
	other, err := CollectHashes(root, "hvia-ge-66")
	require.NoError(t, err)
	require.Equal(t, h.Layout, other.Layout)
	require.NotEqual(t, h.Params, other.Params)
	_, err = CollectHashes(root, "none")
	require.ErrorContains(t, err, `no profile "none"`)
}
