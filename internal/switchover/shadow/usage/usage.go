// Package usage measures the storage of a mirror's two targets, and their use of CPU and disks.
//
// Reading order: rows.go (rows of a report), usage.go, process.go (figures of the kernel).
package usage

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/estimate/disk/usage"
)

// Size holds what a server reports about itself.
type Size struct {
	Bytes   int64         // of its data
	By      string        // source of Bytes, such as "pg_database_size"
	Files   string        // its data directory, if that is on this machine
	Process int           // its main process, if that is on this machine
	CPU     time.Duration // used so far; 0: not reported
	Why     []string      // why figures are missing
}

// Usage holds the figures of a target. Figures that could not be read are zero, and Missing says why.
type Usage struct {
	Server   int64    `json:"server_bytes,omitempty"` // of data, as counted by the server
	ServerBy string   `json:"server_by,omitempty"`
	Disk     int64    `json:"disk_bytes,omitempty"` // size of its files
	DiskBy   string   `json:"disk_by,omitempty"`    // its source: btrfs, ZFS, blocks (of stat) or the command
	CPU      float64  `json:"cpu_s,omitempty"`      // since it was started
	Read     int64    `json:"read_bytes,omitempty"` // from disks, since it was started
	Written  int64    `json:"written_bytes,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Missing  []string `json:"missing,omitempty"`
}

// Both holds the figures of both targets.
type Both struct {
	At      time.Time `json:"at"`
	Control Usage     `json:"control"`
	Test    Usage     `json:"test"`
}

// Of completes a server's report with figures of this machine. command prints the bytes on disk; "": the
// files are measured.
func Of(ctx context.Context, s Size, command string) (u Usage) {
	u.Server, u.ServerBy, u.Missing = s.Bytes, s.By, s.Why
	u.CPU = s.CPU.Seconds()
	if s.Process != 0 {
		if p, err := processes(s.Process); err != nil { // p lacks some of its children
			u.Misses("CPU and I/O: %v", err)
		} else {
			u.CPU, u.Read, u.Written = p.cpu.Seconds(), p.read, p.written
		}
	}
	u.disk(ctx, command, s.Files)
	return u
}

// disk sets the bytes on disk, from a command or from the files.
func (u *Usage) disk(ctx context.Context, command, files string) {
	switch {
	case command != "":
		n, err := printed(ctx, command)
		if err != nil {
			u.Misses("bytes on disk: %v", err)
			return
		}
		u.Disk, u.DiskBy = n, "command"
	case files != "":
		space, err := usage.Directory(ctx, files)
		if err != nil {
			u.Misses("bytes on disk: %v", err)
			return
		}
		u.Disk, u.DiskBy = space.Bytes, space.By
		if space.Note != "" {
			u.Notes = append(u.Notes, space.Note)
		}
	}
}

// Misses records why a figure is missing.
func (u *Usage) Misses(format string, args ...any) {
	u.Missing = append(u.Missing, fmt.Sprintf(format, args...))
}

// printed runs a command, and returns the number that its output begins with.
func printed(ctx context.Context, command string) (int64, error) {
	text, err := exec.CommandContext(ctx, "sh", "-c", command).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return 0, fmt.Errorf("%q: %w: %s", command, err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return 0, fmt.Errorf("%q printed nothing", command)
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q did not print a number of bytes: %w", command, err)
	}
	return n, nil
}
