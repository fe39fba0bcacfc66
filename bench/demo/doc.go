// SPDX-License-Identifier: Apache-2.0

// Package demo makes one RDMA write and reports it step by step.
package demo
