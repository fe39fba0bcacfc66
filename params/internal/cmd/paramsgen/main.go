// SPDX-License-Identifier: Apache-2.0

// Command paramsgen writes every file that is generated from package params.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"hvia/params"
	"hvia/params/internal/render"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "paramsgen:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := render.Files(params.Table(), params.Profiles)
	if err != nil {
		return err
	}
	for name, body := range files {
		path := filepath.Join("..", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, body, 0o644); err != nil {
			return err
		}
	}
	return nil
}
