// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"

	"hvia/bench/report"
	"hvia/params"
)

// sample is a complete report with made-up numbers of the right magnitude.
func sample() *report.Report {
	r := report.New(params.Base, 1, report.Hashes{Layout: "0123456789abcdef", Params: "fedcba9876543210", RTL: "0011223344556677"})
	r.Notes = []string{"a note of the run"}
	pred := &report.Prediction{Parameters: map[string]int64{"MacReactClocks": 4, "MviaWakeTime": 8_000_000}}
	r.Results.Prediction = pred
	row := func(size int, ps int64) report.PingPongResult {
		return report.PingPongResult{Size: size, HalfRTTPs: ps, HardwarePs: ps - 5_300_000, HostPs: 5_300_000, BytesPerSec: report.BytesPerSecond(size, ps), Verified: true}
	}
	// The model's table in microseconds, one decimal.
	half := []int64{127, 128, 147, 223, 499, 623, 697, 885, 1287, 2092, 3680, 6859}
	mvia := []int64{576, 577, 592, 653, 898, 1019, 1174, 1438, 2046, 3263, 5615, 10321}
	tcp := []int64{1179, 1184, 1204, 1282, 1596, 1749, 1899, 2158, 2752, 3941, 6243, 10923}
	for k, size := range report.PaperSizes {
		ps := half[k] * 100_000
		r.Results.Mvia = append(r.Results.Mvia, row(size, mvia[k]*100_000))
		r.Results.Tcp = append(r.Results.Tcp, row(size, tcp[k]*100_000))
		pred.Mvia = append(pred.Mvia, row(size, mvia[k]*101_000))
		pred.Tcp = append(pred.Tcp, row(size, tcp[k]*102_000))
		r.Results.RDMAWrite = append(r.Results.RDMAWrite, row(size, ps))
		r.Results.SendReceive = append(r.Results.SendReceive, row(size, ps+2_900_000+int64(k%3)*120_000))
		r.Results.ReliableWrite = append(r.Results.ReliableWrite, row(size, ps+200_000))
		r.Results.RDMARead = append(r.Results.RDMARead, row(size, ps+10_500_000))
		pred.RDMAWrite = append(pred.RDMAWrite, row(size, ps-int64(size)*440))
		pred.SendReceive = append(pred.SendReceive, row(size, ps-int64(size)*440+2_900_000))
		r.Results.PostReceive = append(r.Results.PostReceive, report.PostReceiveResult{Size: size, MeanPs: 6_010_000 + int64(k)*3_000, MinPs: 5_980_000, MaxPs: 6_080_000})
		wait := 15_000_000 + int64(size)*9_300
		if size < 2048 {
			wait = 4_800_000 + int64(size)*16_500
		}
		r.Results.ReceiveWait = append(r.Results.ReceiveWait, report.ReceiveWaitResult{Size: size, MeanPs: wait})
		for _, protocol := range []string{"rdma_write", "send_receive", "mvia", "tcp"} {
			r.Results.ModelCurve = append(r.Results.ModelCurve, report.ModelPoint{Size: size, Protocol: protocol, ModelPs: ps, MeasuredPs: ps + 1000, Band: 0.05, OK: k != 3})
		}
	}
	for _, s := range []struct {
		name         string
		mean, budget int64
	}{
		{"host: VipPostSend up to the doorbell's store", 5250, 5250}, {"doorbell posted write", 236, 240}, {"doorbell decode", 150, 90},
		{"ATT: descriptor VA to PA", 263, 230}, {"system PCI read, descriptor", 900, 780}, {"parse", 30, 60}, {"ATT: send buffer", 240, 230},
		{"system PCI read, payload", 450, 450}, {"header insert", 30, 60}, {"MAC PCI: kick, descriptor", 840, 1030}, {"MAC PCI read, frame", 450, 780},
		{"DP83820 transmit", 167, 250}, {"wire and PHYs", 1137, 1140}, {"DP83820 receive, MAC PCI write", 1126, 1270}, {"header parse, VI check", 360, 120},
		{"ATT: target buffer", 270, 0}, {"system PCI write, payload", 240, 240}, {"poll sees it", 200, 200},
	} {
		r.Results.Waterfall = append(r.Results.Waterfall, report.WaterfallRow{Name: s.name, MeanPs: s.mean * 1000, BudgetPs: s.budget * 1000})
	}
	shares := func(list ...any) (rows []report.TimeShare) {
		for k := 0; k < len(list); k += 2 {
			rows = append(rows, report.TimeShare{Name: list[k].(string), Ps: int64(list[k+1].(float64) * 1e6)})
		}
		return rows
	}
	r.Results.Paths = []report.MessagePath{
		{Protocol: "rdma_write", Size: 4, HalfRTTPs: 12_828_000, Rows: shares("library", 5.25, "NIC", 4.53, "bus", 1.82, "wire", 1.14, "poll", 0.088, "not accounted", 0.0)},
		{Protocol: "send_receive", Size: 4, HalfRTTPs: 15_645_000, Rows: shares("library", 7.78, "NIC", 4.59, "bus", 2.13, "wire", 1.14, "not accounted", 0.0)},
		{Protocol: "mvia", Size: 4, HalfRTTPs: 57_600_000, Rows: shares("library", 7.78, "trap", 0.4, "copy", 0.036, "protocol", 11.1, "NIC", 22.5, "bus", 2.7, "wire", 1.14, "interrupt", 2.0, "wake", 8.5, "switch", 1.1, "not accounted", 0.34)},
		{Protocol: "tcp", Size: 4, HalfRTTPs: 117_900_000, Rows: shares("trap", 0.4, "copy", 0.072, "protocol", 10.6, "NIC", 22.5, "bus", 2.8, "wire", 1.2, "interrupt", 2.0, "wake", 77.0, "switch", 1.1, "not accounted", 0.228)},
	}
	for _, size := range []int{4, 65536} {
		n := float64((size + 1471) / 1472)
		copied := float64(size) * 0.008929
		for _, a := range []report.MessageAccount{
			{Protocol: "rdma_write", HalfRTTPs: 12_828_000, Processor: shares("library", 5.25, "copy", 0.0), ProcessorPs: 5_250_000},
			{Protocol: "send_receive", HalfRTTPs: 15_645_000, Processor: shares("library", 13.03, "copy", 0.0), ProcessorPs: 13_030_000},
			{Protocol: "mvia", HalfRTTPs: 57_600_000, Processor: shares("library", 13.03, "trap", 1.2, "copy", copied, "interrupt", 2*n, "protocol", 11.1*n, "switch", 1.1), ProcessorPs: int64(15.33+copied+13.1*n) * 1_000_000},
			{Protocol: "tcp", HalfRTTPs: 117_900_000, Processor: shares("trap", 1.2, "copy", 2*copied, "interrupt", 3*n, "protocol", 15.0*n, "switch", 1.1), ProcessorPs: int64(2.3+2*copied+18*n) * 1_000_000},
		} {
			a.Size, a.PollPs, a.BusPs, a.WirePs, a.Frames = size, 20_000_000, int64(n*25)*1_000_000, int64(n*12)*1_000_000, n
			r.Results.Accounts = append(r.Results.Accounts, a)
		}
	}
	hops := []struct {
		name  string
		ns    int64
		delay int64
	}{
		{"system bus read (sender)", 12_470, 2_500}, {"MAC bus read (sender)", 13_980, 15_000}, {"wire", 12_300, 29_500},
		{"MAC bus write (receiver)", 13_200, 31_000}, {"system bus write (receiver)", 12_370, 45_500},
	}
	l := &report.Pipeline{Size: 65536, EndPs: 700_000_000}
	for _, h := range hops {
		hop := report.Hop{Name: h.name, BusyPpm: h.ns * 45 * 1_000_000 / 700_000}
		for f := range 45 {
			start := h.delay + int64(f)*14_300
			length := h.ns
			if f == 44 {
				length /= 2
			}
			hop.Spans = append(hop.Spans, report.Span{Frame: f + 1, StartPs: start * 1000, EndPs: (start + length) * 1000})
		}
		l.Hops = append(l.Hops, hop)
	}
	r.Results.Pipeline = l
	v := func(x float64) *float64 { return &x }
	r.Results.Targets = []report.Target{
		{ID: "T1", Quantity: "RDMA half RTT, 4 B", Unit: "us", Paper: v(12.5), Predicted: v(12.2), Calibrated: 12.7, Low: 11.9, High: 13.1, Kind: report.KindPrediction, OK: true},
		{ID: "T2", Quantity: "M-VIA half RTT, 4 B", Unit: "us", Paper: v(57.6), Predicted: v(58.0), Calibrated: 57.6, Low: 57.024, High: 58.176, Kind: report.KindCalibration, OK: true},
		{ID: "T4", Quantity: "TCP/IP bandwidth, 64 KiB", Unit: "MB/s", Paper: v(60), Predicted: v(58.0), Calibrated: 60.1, Low: 59.4, High: 60.6, Kind: report.KindCalibration, OK: true},
		{ID: "T3", Quantity: "RDMA bandwidth, 64 KiB", Unit: "MB/s", Paper: v(95.5), Predicted: v(99.74), Calibrated: 95.6, Low: 92.6, High: 98.4, Kind: report.KindCalibration, OK: true},
		{ID: "T5", Quantity: "send/receive less RDMA, 4 B", Unit: "us", Paper: v(2.9), Calibrated: 2.9, Low: 2.6, High: 3.2, Kind: report.KindCalibration, OK: true},
		{ID: "T5", Quantity: "its flatness", Unit: "us", Calibrated: 0.24, Low: 0, High: 0.6, Kind: report.KindPrediction, OK: true},
		{ID: "T6", Quantity: "largest gain", Unit: "MB/s", Paper: v(1.4), Calibrated: 1.47, Low: 1.1, High: 1.7, Kind: report.KindPrediction, OK: true},
		{ID: "T7", Quantity: "smallest gain", Unit: "MB/s", Paper: v(0.1), Calibrated: 0.03, Low: 0.05, High: 0.15, Kind: report.KindPrediction, OK: false},
		{ID: "T8", Quantity: "VipPostRecv processor time", Unit: "us", Paper: v(6), Calibrated: 6.02, Low: 5.7, High: 6.3, Kind: report.KindCalibration, OK: true},
		{ID: "T9", Quantity: "VipRecvWait slope", Unit: "ns/B", Calibrated: 9.31, Low: 8.37, High: 10.23, Kind: report.KindPrediction, OK: true},
		{ID: "T10", Quantity: "512-byte bursts, system PCI", Unit: "MB/s", Paper: v(120), Calibrated: 120.2, Low: 118.8, High: 121.2, Kind: report.KindCalibration, OK: true},
		{ID: "T10", Quantity: "512-byte bursts, MAC PCI", Unit: "MB/s", Paper: v(117), Calibrated: 116.9, Low: 115.8, High: 118.2, Kind: report.KindCalibration, OK: true},
	}
	r.Results.Targets = append(r.Results.Targets,
		report.Target{ID: "T11", Quantity: "latency, TCP/IP over RDMA", Unit: "times", Paper: v(9.4), Calibrated: 9.28, Low: 8.93, High: 9.87, Kind: report.KindDerived, OK: true},
		report.Target{ID: "T12", Quantity: "RDMA not ahead of M-VIA", Unit: "of 12 lengths", Calibrated: 0, Kind: report.KindPrediction, OK: true})
	r.Misses = []string{"T7 smallest gain: 0.03 MB/s is not in 0.05 to 0.15"}
	r.Results.FirstWrite = []report.FirstWriteResult{
		{Size: 4, ConnectPs: 27_380_000, OffersPs: 40_320_000, MessagePs: 65_510_000}, {Size: 4096, ConnectPs: 27_380_000, OffersPs: 115_340_000, MessagePs: 140_530_000, Fault: "byte 3 of <4096>"},
	}
	r.Results.Ablations = &report.Ablations{Sizes: []int{4, 1400, 32768, 65536}}
	for k, name := range []string{"the card as it is", "one buffer each way", "cut-through both ways"} {
		r.Results.Ablations.Variants = append(r.Results.Ablations.Variants, report.Variant{
			Name: name, Straps: []string{fmt.Sprintf("Strap%d", k)}, Parameters: map[string]int64{"SdramClockPeriod": 30000, "BridgeWaitClocks": 2}, Verified: true,
			Figures: []report.AblationFigure{
				{Name: "half RTT, 4 B", Unit: "us", Value: 12.65 - float64(k)*0.3, Base: 12.65, Foreseen: v(12.35)},
				{Name: "bandwidth, 64 KiB", Unit: "MB/s", Value: 95.5 + float64(k), Base: 95.5},
			},
		})
	}
	prior := int64(4)
	r.Numbers = []report.Parameter{
		{Name: "SystemClockPeriod", Value: 30000, Unit: "ps", Class: "model", Tag: "SOURCED", Source: "PCI 2.1: 33.33 MHz", Doc: "system PCI and core clock"},
		{Name: "MacReactClocks", Value: 14, Unit: "clock", Class: "model", Tag: "CALIBRATED(T3)", Source: "64 KiB at 95.6 MB/s", Doc: "dead time", Prior: &prior},
		{Name: "HostPostTime", Value: 5_250_000, Unit: "ps", Class: "host", Tag: "CALIBRATED(T8)", Source: "Figure 11 less the clock", Doc: "a post"},
		{Name: "MviaWakeTime", Value: 8_500_000, Unit: "ps", Class: "host", Tag: "CALIBRATED(T2)", Source: "57.6 us", Doc: "wake"},
	}
	r.Wall = report.Wall{BuildSeconds: 94, Seconds: 38}
	return r
}
