// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hvia/bench/report"
	"hvia/layout"
	"hvia/params"
	"hvia/sim/verilate"
)

// CollectHashes takes the hashes of the layouts and of a profile's numbers
// compiled in, and that of the RTL files of a checkout.
func CollectHashes(root, profile string) (report.Hashes, error) {
	set, err := params.ForProfile(profile)
	if err != nil {
		return report.Hashes{}, fmt.Errorf("collect hashes: %w", err)
	}
	h := report.Hashes{Layout: fmt.Sprintf("%016x", layout.Hash), Params: fmt.Sprintf("%016x", set.Hash)}
	h.RTL, err = RTLHash(root)
	return h, err
}

// CheckoutHashes returns the hashes of this program's checkout.
func CheckoutHashes(profile string) (report.Hashes, error) {
	root, err := verilate.Root()
	if err != nil {
		return report.Hashes{}, err
	}
	return CollectHashes(root, profile)
}

// Environment validates a configuration and returns the checkout's hashes.
func Environment(c interface{ Validate() error }, profile string) (report.Hashes, error) {
	if err := c.Validate(); err != nil {
		return report.Hashes{}, err
	}
	return CheckoutHashes(profile)
}

// RTLHash is the first eight bytes of the SHA-256 over names and contents of
// every SystemVerilog file under rtl/, in lexical order.
func RTLHash(root string) (string, error) {
	if root == "" {
		return "", errors.New("hash the RTL: no checkout given")
	}
	sum := sha256.New()
	dir := filepath.Join(root, "rtl")
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".sv" {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		// The length makes a byte that moves between two files change the hash.
		fmt.Fprintf(sum, "%s\n%d\n", filepath.ToSlash(rel), len(body))
		sum.Write(body)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash the RTL: %w", err)
	}
	if n == 0 {
		return "", fmt.Errorf("hash the RTL: no .sv files under %s: is this the checkout's root?", dir)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
