// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"hash/fnv"
	"slices"
)

// A bucket holds one pair. A reader on another node cannot lock it: it fetches
// the bucket with one RDMA read, perhaps during a store. The checksum over the
// rest detects that. A bucket of zeros is empty.
const (
	checksumAt = 0
	versionAt  = 8  // counts the stores of the table, from 1
	lengthsAt  = 16 // of key and value, 4 bytes each
	keyAt      = 24
	valueAt    = 56

	bucketBytes = 256
	maxKey      = valueAt - keyAt
	maxValue    = bucketBytes - valueAt
)

var checksums = crc64.MakeTable(crc64.ECMA)

// entry is a decoded bucket; version 0 means none.
type entry struct {
	key, value string
	version    uint64
}

func (e entry) seal() ([]byte, error) {
	if len(e.key) == 0 || len(e.key) > maxKey || len(e.value) > maxValue {
		return nil, fmt.Errorf("a key of %d bytes with a value of %d: want 1 to %d, and at most %d", len(e.key), len(e.value), maxKey, maxValue)
	}
	b := make([]byte, bucketBytes)
	binary.LittleEndian.PutUint64(b[versionAt:], e.version)
	binary.LittleEndian.PutUint32(b[lengthsAt:], uint32(len(e.key)))
	binary.LittleEndian.PutUint32(b[lengthsAt+4:], uint32(len(e.value)))
	copy(b[keyAt:], e.key)
	copy(b[valueAt:], e.value)
	binary.LittleEndian.PutUint64(b[checksumAt:], crc64.Checksum(b[versionAt:], checksums))
	return b, nil
}

// complete reports whether the bytes are from one store, or from none.
func complete(b []byte) bool {
	return binary.LittleEndian.Uint64(b[checksumAt:]) == crc64.Checksum(b[versionAt:], checksums) || empty(b)
}

func empty(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// unseal decodes a bucket without checking it.
func unseal(b []byte) entry {
	key := min(binary.LittleEndian.Uint32(b[lengthsAt:]), maxKey)
	value := min(binary.LittleEndian.Uint32(b[lengthsAt+4:]), maxValue)
	return entry{string(b[keyAt:][:key]), string(b[valueAt:][:value]), binary.LittleEndian.Uint64(b[versionAt:])}
}

// home is the bucket where the search for a key begins; the next ones follow.
func home(key string, buckets int) int {
	h := fnv.New64a()
	h.Write([]byte(key))
	return int(h.Sum64() % uint64(buckets))
}
