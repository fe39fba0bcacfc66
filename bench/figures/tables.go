// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"slices"

	"hvia/bench/report"
)

func pingPongTable(caption string, rows []report.PingPongResult) table {
	t := table{caption: caption, heads: []string{"bytes", "half round trip, µs", "of it hardware, µs", "of it host, µs", "MB/s", "bytes checked"}, align: "rrrrrl"}
	for _, r := range rows {
		check := "ok"
		if !r.Verified {
			check = "WRONG: " + r.Fault
		}
		t.rows = append(t.rows, []string{thousands(int64(r.Size)), fixed(micros(r.HalfRTTPs), 3), fixed(micros(r.HardwarePs), 3), fixed(micros(r.HostPs), 3), fixed(megabytes(r.Size, r.HalfRTTPs), 2), check})
	}
	return t
}

// readTable compares reads with writes at the same reliability level.
func readTable(reads, writes []report.PingPongResult) table {
	t := table{caption: "RDMA read and RDMA write over a VI of reliable delivery, as measured", heads: []string{"bytes", "read, µs", "write, µs", "read over write", "read, MB/s", "write, MB/s", "bytes checked"}, align: "rrrrrrl"}
	for _, r := range reads {
		row := []string{thousands(int64(r.Size)), fixed(micros(r.HalfRTTPs), 3), "–", "–", fixed(megabytes(r.Size, r.HalfRTTPs), 2), "–", "ok"}
		check := r
		if k := slices.IndexFunc(writes, func(w report.PingPongResult) bool { return w.Size == r.Size }); k >= 0 {
			w := writes[k]
			row[2], row[3], row[5] = fixed(micros(w.HalfRTTPs), 3), fixed(float64(r.HalfRTTPs)/float64(w.HalfRTTPs), 2), fixed(megabytes(w.Size, w.HalfRTTPs), 2)
			if check.Verified {
				check = w
			}
		}
		if !check.Verified {
			row[6] = "WRONG: " + check.Fault
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// modelTable is the measured curve beside that of the model, if the report has
// it.
func (s *study) modelTable(protocol, name string) []table {
	t := table{caption: "Half round trip of " + name + " beside the model, which is not the paper's", heads: []string{"bytes", "model, µs", "measured, µs", "deviation", "accepted", "result"}, align: "rrrrrl"}
	for _, m := range s.Results.ModelCurve {
		if m.Protocol != protocol || !s.paper {
			continue
		}
		deviation := "–"
		if m.ModelPs > 0 {
			deviation = signed(100*float64(m.MeasuredPs-m.ModelPs)/float64(m.ModelPs), 1) + " %"
		}
		t.rows = append(t.rows, []string{thousands(int64(m.Size)), fixed(micros(m.ModelPs), 1), fixed(micros(m.MeasuredPs), 3), deviation, "± " + plain(m.Band*100) + " %", verdict(m.OK)})
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []table{t}
}

func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "miss"
}
