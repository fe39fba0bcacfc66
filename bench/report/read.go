// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"os"
)

// schemaBefore is the format before the envelope.
const schemaBefore = "hvia-report/1"

// Read reads a report that Save has written, in this or the previous format. It
// ignores keys that this version does not know: keys are only ever added.
func Read(path string) (*Report, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	var r Report
	var head struct{ Schema string }
	if err = json.Unmarshal(body, &head); err == nil {
		switch head.Schema {
		case Schema:
			err = json.Unmarshal(body, &r)
		case schemaBefore:
			r, err = upgraded(body)
		default:
			return nil, fmt.Errorf("read the report %s: its schema is %q, not %q or %q; name the report.json of a reproduction", path, head.Schema, Schema, schemaBefore)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the report %s: it is not the JSON of a report: %w; name the report.json of a reproduction", path, err)
	}
	return &r, nil
}

// upgraded returns a report of schemaBefore in the present format.
func upgraded(body []byte) (r Report, err error) {
	var old struct {
		Profile    string
		Seed       uint64
		Hashes     Hashes
		Parameters []Parameter
		Notes      []string
		Misses     []string
		Results    Results
		Wall       Wall
		Error      *failure
	}
	if err = json.Unmarshal(body, &old); err != nil {
		return r, err
	}
	old.Results.Notes, old.Results.Misses = old.Notes, old.Misses
	return Report{
		Envelope:   Envelope{Schema: Schema, Environment: old.Hashes, Wall: old.Wall, Error: old.Error},
		Parameters: Parameters{old.Profile, old.Seed, old.Parameters}, Results: old.Results,
	}, nil
}
