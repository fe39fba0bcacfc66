// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"os"
)

// Read reads a report that Save has written. It ignores keys that this version
// does not know: keys are only ever added.
func Read(path string) (*Report, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("read the report %s: it is not the JSON of a report: %w; name the report.json of a reproduction", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("read the report %s: its schema is %q, not %q; name the report.json of a reproduction", path, r.Schema, Schema)
	}
	return &r, nil
}
