// SPDX-License-Identifier: Apache-2.0

// Package tracetest makes traces for tests.
package tracetest
