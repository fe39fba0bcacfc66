// SPDX-License-Identifier: Apache-2.0

// Package hub is the protocol between a program and the service of a fabric. It
// also names the Unix socket on which they meet. Each packet is one JSON
// object, with file descriptors beside it.
package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of this package.
var (
	ErrNoFabric = errors.New("no such fabric runs")
	ErrName     = errors.New("not a name of a fabric")
	ErrPacket   = errors.New("not a packet of this protocol")
)

// Default is the name of a fabric if none is given.
const Default = "default"

const (
	// MaxPacket bounds the bytes of one JSON object; longer answers come in
	// pieces.
	MaxPacket = 60_000
	// AnswerLimit bounds the wait for an answer.
	AnswerLimit = 20 * time.Second

	maxPath = 107 // bytes of a Unix socket's path
)

var names = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}$`)

// Base returns the directory of this user's fabrics.
func Base() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "hvia")
	}
	return filepath.Join(os.TempDir(), "hvia-"+strconv.Itoa(os.Getuid()))
}

// Dir returns the directory of a fabric.
func Dir(fabric string) (string, error) {
	if fabric == "" {
		fabric = Default
	}
	if !names.MatchString(fabric) {
		return "", fmt.Errorf("'%s': %w: want 1 to 40 letters, digits, '_', '.' and '-', and neither of the last two first", fabric, ErrName)
	}
	return filepath.Join(Base(), fabric), nil
}

// Socket returns the path of a fabric's socket.
func Socket(fabric string) (string, error) {
	dir, err := Dir(fabric)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "service.sock")
	if len(path) > maxPath {
		return "", fmt.Errorf("socket %s: its path has %d bytes, at most %d: set XDG_RUNTIME_DIR to a shorter one: %w", path, len(path), maxPath, unix.ENAMETOOLONG)
	}
	return path, nil
}

// Operations of a Request.
const (
	OpJoin   = "join"
	OpStatus = "status"
	OpDown   = "down"
)

// Request is a program's request to a service. The connection of a Join stays
// open for the life of the process.
type Request struct {
	Op          string `json:"op"`
	Layout      string `json:"layout"` // hash of the program's layouts
	Node        int    `json:"node,omitempty"`
	Name        string `json:"name,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
}

// Reply answers a Request.
type Reply struct {
	Error   string `json:"error,omitempty"`
	Refusal string `json:"rejection,omitempty"` // kind of error: a key known to both sides
	More    bool   `json:"more,omitempty"`      // another piece of Text follows
	Text    string `json:"text,omitempty"`      // status

	// The reply to a join; the guest's socket comes with it.
	Device   string `json:"device,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Thread   string `json:"thread,omitempty"` // name of the only thread of a declared process
	Replies  uint64 `json:"replies,omitempty"`
	Statuses uint64 `json:"statuses,omitempty"`
}

// Dial connects to the service of a fabric.
func Dial(ctx context.Context, fabric string) (*net.UnixConn, error) {
	path, err := Socket(fabric)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("nobody serves %s: %w (%w): start it with hvia up", path, ErrNoFabric, err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return c.(*net.UnixConn), nil
}

// Send sends one object and descriptors beside it.
func Send(c *net.UnixConn, v any, descriptors ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxPacket {
		return fmt.Errorf("%d bytes in a packet, at most %d: %w", len(b), MaxPacket, ErrPacket)
	}
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	n, _, err := c.WriteMsgUnix(b, rights, nil)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// Receive receives one object and descriptors beside it, which the caller must
// close. io.EOF means that the other side is gone.
func Receive(c *net.UnixConn, v any) (files []*os.File, err error) {
	b, oob := make([]byte, MaxPacket+1), make([]byte, unix.CmsgSpace(8*4))
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	for _, fd := range rights(oob[:oobn]) {
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), c.RemoteAddr().String()))
	}
	fail := func(err error) ([]*os.File, error) {
		for _, f := range files {
			_ = f.Close()
		}
		return nil, err
	}
	switch {
	case err != nil:
		return fail(err)
	case n == 0:
		return fail(io.EOF)
	case n > MaxPacket:
		return fail(fmt.Errorf("a packet of more than %d bytes: %w", MaxPacket, ErrPacket))
	}
	if err := json.Unmarshal(b[:n], v); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrPacket, err))
	}
	return files, nil
}

func rights(oob []byte) (all []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

// Peer returns the process, and its user, at the other end.
func Peer(c *net.UnixConn) (pid, uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, 0, err
	}
	if failed != nil {
		return 0, 0, failed
	}
	return int(cred.Pid), int(cred.Uid), nil
}

// Deadline limits operations on a connection by a span and a context. The
// returned function removes both limits.
func Deadline(ctx context.Context, c *net.UnixConn, limit time.Duration) func() {
	_ = c.SetDeadline(time.Now().Add(limit))
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if stop() {
			_ = c.SetDeadline(time.Time{})
		}
	}
}
