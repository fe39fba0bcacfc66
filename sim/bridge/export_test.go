// SPDX-License-Identifier: Apache-2.0

package bridge

// ClaimHashes makes a process claim to have been built from other layouts and
// parameters.
func ClaimHashes(o *Options, layoutHash, paramsHash uint64) {
	o.layoutHash, o.paramsHash = layoutHash, paramsHash
}

// NewTestMemory is host memory on the heap.
func NewTestMemory(frames int) *Memory {
	return &Memory{Frames: frames, use: make([]byte, 4*frames), view: make([]byte, frames*FrameBytes)}
}
