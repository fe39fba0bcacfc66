// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// logLimit is the most bytes of the log of a fabric in the background. Earlier
// text is in one more file, of the same name with oldLog appended.
const (
	logLimit = 4 << 20
	oldLog   = ".old"
)

// logFile is a log that starts another file when it is full.
type logFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// openLog appends to a log.
func openLog(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, limit: limit}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate renames the log and starts another. If standard output and error are
// the log, they move to the new one, so that it shows a crash.
func (l *logFile) rotate() error {
	old := l.file
	if err := os.Rename(l.path, l.path+oldLog); err != nil {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	var was, of unix.Stat_t
	if err := unix.Fstat(int(old.Fd()), &was); err == nil {
		for _, fd := range []int{1, 2} {
			if unix.Fstat(fd, &of) == nil && of.Ino == was.Ino && of.Dev == was.Dev {
				_ = unix.Dup3(int(l.file.Fd()), fd, 0)
			}
		}
	}
	return old.Close()
}

func (l *logFile) close() { _ = l.file.Close() }
