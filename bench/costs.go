// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"hvia/driver"
	"hvia/params"
)

// hostCosts fills the driver's cost model from package params. What has no
// measured or printed value yet is free, and the report says so.
type hostCosts struct{}

var _ driver.CostModel = hostCosts{}

func (hostCosts) Post() driver.Time       { return params.HostPostTime }
func (hostCosts) PollPeriod() driver.Time { return params.HostPollPeriod }
func (hostCosts) Done() driver.Time       { return 0 }
func (hostCosts) AgentCall() driver.Time  { return 0 }
func (hostCosts) PinPage() driver.Time    { return 0 }
func (hostCosts) Interrupt() driver.Time  { return 0 }
