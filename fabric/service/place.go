// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hvia/fabric/internal/hub"
)

// place is a fabric's directory, with its lock, held by one service, and its
// socket.
type place struct {
	dir, socket string
	lock        *os.File
	mine        bool // this service created the socket
}

// takePlace claims the name of a fabric and removes leftovers of a dead
// service.
func takePlace(fabric string) (*place, error) {
	socket, err := hub.Socket(fabric)
	if err != nil {
		return nil, err
	}
	p := &place{dir: filepath.Dir(socket), socket: socket}
	for _, dir := range []string{filepath.Dir(p.dir), p.dir} {
		if err := ownDirectory(dir); err != nil {
			return nil, err
		}
	}
	for {
		if p.lock, err = os.OpenFile(filepath.Join(p.dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600); err != nil {
			if errors.Is(err, os.ErrNotExist) && ownDirectory(p.dir) == nil {
				continue // the previous service has just removed it
			}
			return nil, err
		}
		if err := unix.Flock(int(p.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			who, _ := io.ReadAll(io.LimitReader(p.lock, 32))
			p.lock.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("process %s serves %s: %w: end it with hvia down, or take another name", strings.TrimSpace(string(who)), p.dir, ErrRunning)
			}
			return nil, fmt.Errorf("lock %s: %w", p.lock.Name(), err)
		}
		// The previous service may have removed the file between the two calls.
		var ours, there unix.Stat_t
		if unix.Fstat(int(p.lock.Fd()), &ours) == nil && unix.Stat(p.lock.Name(), &there) == nil && ours.Ino == there.Ino && ours.Dev == there.Dev {
			break
		}
		p.lock.Close()
		if err := ownDirectory(p.dir); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(p.lock.Truncate(0), writeAll(p.lock, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		p.leave()
		return nil, err
	}
	if err := os.Remove(p.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.leave()
		return nil, err
	}
	return p, nil
}

func writeAll(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// ownDirectory creates a directory private to this user, or checks that it is:
// where all users can create directories, another user may have been first.
func ownDirectory(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a directory of this user alone (%v): remove it, or set XDG_RUNTIME_DIR: %w", dir, info.Mode(), os.ErrPermission)
	}
	return nil
}

func (p *place) listen() (*net.UnixListener, error) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: p.socket, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	p.mine = true
	l.SetUnlinkOnClose(false) // hide unlinks it, under the lock
	if err := os.Chmod(p.socket, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (p *place) hide() {
	if p.mine {
		p.mine = false
		_ = os.Remove(p.socket)
	}
}

func (p *place) leave() {
	p.hide()
	_ = os.Remove(p.lock.Name())
	_ = os.Remove(p.dir) // fails if it is not empty
	p.lock.Close()
}

// awaitFree waits until a service has released its name.
func awaitFree(ctx context.Context, fabric string) error {
	socket, err := hub.Socket(fabric)
	if err != nil {
		return err
	}
	lock := filepath.Join(filepath.Dir(socket), "lock")
	for end := time.Now().Add(hub.AnswerLimit); ; {
		f, err := os.Open(lock)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		f.Close()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("it still holds %s after %v: %w", lock, hub.AnswerLimit, os.ErrDeadlineExceeded)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// LogPath returns the path of the log of a service that runs in the background,
// and creates its directory.
func LogPath(fabric string) (string, error) {
	socket, err := hub.Socket(fabric)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(socket)
	if err := ownDirectory(filepath.Dir(dir)); err != nil {
		return "", err
	}
	return dir + ".log", nil
}
