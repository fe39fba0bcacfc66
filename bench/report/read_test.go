// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReportIsReadBack(t *testing.T) {
	r := New("hvia-ge", 7, Hashes{Layout: "a", Params: "b", RTL: "c"})
	r.Results.RDMAWrite = []PingPongResult{{Size: 4, HalfRTTPs: 12_000_000, HardwarePs: 7_000_000, HostPs: 5_000_000, BytesPerSec: 333_333, Verified: true}}
	paper := 12.5
	r.Results.Targets = []Target{{ID: "T1", Paper: &paper, Calibrated: 12, Low: 11.9, High: 13.1, Kind: KindPrediction, OK: true}}
	r.Error = &failure{"stopped"}
	path, err := r.Save(t.TempDir())
	require.NoError(t, err)
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, r, got)
}

// A report of the format before reads as the same run's in this format, and
// nothing of it is lost.
func TestReportBeforeTheEnvelopeIsRead(t *testing.T) {
	const before = "testdata/report-1.json"
	got, err := Read(before)
	require.NoError(t, err)
	path, err := got.Save(t.TempDir())
	require.NoError(t, err)
	again, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, got, again)

	var was, is map[string]any
	for path, to := range map[string]*map[string]any{before: &was, path: &is} {
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, to))
	}
	parameters, results := is["parameters"].(map[string]any), was["results"].(map[string]any)
	require.Equal(t, was["profile"], parameters["profile"])
	require.Equal(t, was["seed"], parameters["seed"])
	require.Equal(t, was["parameters"], parameters["numbers"])
	require.Equal(t, was["hashes"], is["environment"])
	require.Equal(t, was["wall"], is["wall"])
	for _, key := range []string{"notes", "misses"} {
		if was[key] != nil {
			results[key] = was[key]
		}
	}
	require.Equal(t, results, is["results"])
}

func TestReportThatIsNoneIsRejected(t *testing.T) {
	_, err := Read(filepath.Join(t.TempDir(), "report.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, c := range []struct{ body, says string }{
		{"", "not the JSON of a report"},
		{"[1]", "not the JSON of a report"},
		{"{}", `its schema is "", not "hvia-report/2" or "hvia-report/1"`},
		{`{"schema": "hvia-demo/1"}`, `its schema is "hvia-demo/1"`},
	} {
		path := filepath.Join(t.TempDir(), "report.json")
		require.NoError(t, os.WriteFile(path, []byte(c.body), 0o644))
		_, err := Read(path)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, path)
	}
}
