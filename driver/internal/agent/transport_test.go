// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver/internal/call"
	"hvia/driver/internal/connect"
	"hvia/host"
	"hvia/host/mem"
	"hvia/params"
)

func TestTransportDefaults(t *testing.T) {
	base, err := params.ForProfile(params.Base)
	require.NoError(t, err)
	got, err := Transport{}.settle(base.Lookup)
	require.NoError(t, err)
	require.Equal(t, transport{
		offer: connect.Offer{Window: 16, ReadLimit: 4}, retryLimit: 7, timeoutLog2: 16, linger: 4 * 30 << 16 * host.Nanosecond,
	}, got)
	require.EqualValues(t, 1<<params.CompletionQueuesLog2, call.StatusCQs)
	require.LessOrEqual(t, call.StatusBytes, mem.PageBytes)
}

func TestTransportSettings(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     Transport
		offer  connect.Offer
		limit  uint8
		log2   uint8
		refuse string
	}{
		{"all given", Transport{Window: 255, ReadLimit: 1, RetryLimit: 255, RetryTimeout: host.Millisecond}, connect.Offer{Window: 255, ReadLimit: 1}, 255, 16, ""},
		{"no retries", Transport{RetryLimit: NoRetries}, connect.Offer{Window: 16, ReadLimit: 4}, 0, 16, ""},
		{"exactly a power of two", Transport{RetryTimeout: 30 * host.Nanosecond << 20}, connect.Offer{Window: 16, ReadLimit: 4}, 7, 20, ""},
		{"a little more than that", Transport{RetryTimeout: 30*host.Nanosecond<<20 + 1}, connect.Offer{Window: 16, ReadLimit: 4}, 7, 21, ""},
		{"less than the least", Transport{RetryTimeout: 1}, connect.Offer{Window: 16, ReadLimit: 4}, 7, 8, ""},
		{"the most", Transport{RetryTimeout: 30 * host.Nanosecond << 31}, connect.Offer{Window: 16, ReadLimit: 4}, 7, 31, ""},
		{"more than the most", Transport{RetryTimeout: 30*host.Nanosecond<<31 + 1}, connect.Offer{}, 0, 0, "RetryTimeout is"},
		{"time that goes back", Transport{RetryTimeout: -1}, connect.Offer{}, 0, 0, "RetryTimeout is"},
		{"window too large", Transport{Window: 256}, connect.Offer{}, 0, 0, "Window is 256: want 4 to 255"},
		{"window that would wait for ever", Transport{Window: 3}, connect.Offer{}, 0, 0, "Window is 3: want 4 to 255"},
		{"window below 0", Transport{Window: -1}, connect.Offer{}, 0, 0, "Window is -1"},
		{"reads too many", Transport{ReadLimit: 5}, connect.Offer{}, 0, 0, "ReadLimit is 5: want 1 to 4"},
		{"retries too many", Transport{RetryLimit: 256}, connect.Offer{}, 0, 0, "RetryLimit is 256"},
		{"retries below none", Transport{RetryLimit: -2}, connect.Offer{}, 0, 0, "RetryLimit is -2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, err := params.ForProfile(params.Base)
			require.NoError(t, err)
			got, err := c.in.settle(base.Lookup)
			if c.refuse != "" {
				require.ErrorIs(t, err, host.ErrInvalidParameter)
				require.ErrorContains(t, err, c.refuse)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []any{c.offer, c.limit, c.log2}, []any{got.offer, got.retryLimit, got.timeoutLog2})
		})
	}
}

// A timeout lasts as long as requested on every card: each counts its own
// clocks.
func TestTransportOfEveryProfile(t *testing.T) {
	for _, profile := range params.Profiles {
		set, err := params.ForProfile(profile.Name)
		require.NoError(t, err)
		clock, err := set.Lookup("SystemClockPeriod")
		require.NoError(t, err)
		got, err := Transport{RetryTimeout: 2 * host.Millisecond}.settle(set.Lookup)
		require.NoError(t, err)
		lasts := host.Time(clock) << got.timeoutLog2
		require.GreaterOrEqual(t, lasts, 2*host.Millisecond, profile.Name)
		require.Less(t, lasts, 4*host.Millisecond, profile.Name)
		require.Equal(t, lingerTimeouts*lasts, got.linger, profile.Name)
	}
	// Limits are the card's.
	small := func(name string) (int64, error) {
		return map[string]int64{"AcknowledgeEvery": 9, "LedgerResponses": 2, "SystemClockPeriod": 1000}[name], nil
	}
	_, err := Transport{Window: 8}.settle(small)
	require.ErrorContains(t, err, "Window is 8: want 9 to 255")
	_, err = Transport{ReadLimit: 3}.settle(small)
	require.ErrorContains(t, err, "ReadLimit is 3: want 1 to 2")
	_, err = Transport{}.settle(func(name string) (int64, error) { return 0, host.ErrInvalidParameter })
	require.ErrorIs(t, err, host.ErrInvalidParameter)
}
