// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"hvia/bench/report"
)

// Names of files in the directory of Write.
const (
	PageName   = "report.html"
	FolderName = "figures"
)

// Written says where Write has put files.
type Written struct {
	Page    string
	Folder  string
	Figures []string // names in the folder, each as .svg and .png
}

// Write draws a report into a directory, which it makes if needed: report.html,
// and each figure as figures/NAME.svg and figures/NAME.png. It draws everything
// before it writes the first file, and removes figures of an older drawing for
// which the report has no data.
func Write(r *report.Report, dir string) (Written, error) {
	out := Written{Page: filepath.Join(dir, PageName), Folder: filepath.Join(dir, FolderName)}
	s := newStudy(r)
	list := s.figures()
	files := map[string][]byte{}
	for _, f := range list {
		if f.picture == nil {
			continue
		}
		svg, err := f.picture.svg()
		if err != nil {
			return out, err
		}
		png, err := f.picture.png()
		if err != nil {
			return out, err
		}
		files[f.file+".svg"], files[f.file+".png"] = svg, png
		out.Figures = append(out.Figures, f.file)
	}
	page, err := s.html(list)
	if err != nil {
		return out, err
	}
	if err := os.MkdirAll(out.Folder, 0o755); err != nil {
		return out, fmt.Errorf("write the figures into %s: %w; name another directory", out.Folder, err)
	}
	for _, name := range allFiles {
		for _, ending := range []string{".svg", ".png"} {
			path := filepath.Join(out.Folder, name+ending)
			if body, ok := files[name+ending]; ok {
				err = replace(path, body)
			} else if err = os.Remove(path); os.IsNotExist(err) {
				err = nil
			}
			if err != nil {
				return out, fmt.Errorf("write the figure %s: %w; name another directory", path, err)
			}
		}
	}
	if err := replace(out.Page, page); err != nil {
		return out, fmt.Errorf("write the page %s: %w; name another directory", out.Page, err)
	}
	slices.Sort(out.Figures)
	return out, nil
}

func replace(path string, body []byte) error {
	return report.Replace(path, func(w io.Writer) error { _, err := w.Write(body); return err })
}
