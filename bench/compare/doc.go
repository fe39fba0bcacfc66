// SPDX-License-Identifier: Apache-2.0

// Package compare runs one pattern of traffic over several protocols and
// compares their times, their use of the hosts and of the wire.
package compare
