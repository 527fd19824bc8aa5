// Package usage says what two targets of a mirror take on their disks, and what they have used.
//
// Reading order: rows.go (what a report shows), usage.go, process.go (what the kernel knows).
package usage

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/disk/used"
)

// Size is what a server says of itself.
type Size struct {
	Bytes   int64         // of its data
	By      string        // whose figure that is, such as "pg_database_size"
	Files   string        // the directory of its data, if that is on this machine
	Process int           // its main process, if that is on this machine
	CPU     time.Duration // that it has used; 0: it does not say
	Why     []string      // it can't tell more
}

// Usage is what a target uses. What could not be read is left out, and Missing says why.
type Usage struct {
	Server   int64    `json:"server_bytes,omitempty"` // of data, as the server counts them
	ServerBy string   `json:"server_by,omitempty"`
	Disk     int64    `json:"disk_bytes,omitempty"` // that its files take
	DiskBy   string   `json:"disk_by,omitempty"`    // whose figure that is: btrfs, ZFS, blocks (of stat) or the command
	CPU      float64  `json:"cpu_s,omitempty"`      // since it was started
	Read     int64    `json:"read_bytes,omitempty"` // from disks, since it was started
	Written  int64    `json:"written_bytes,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Missing  []string `json:"missing,omitempty"`
}

// Both are the targets'.
type Both struct {
	At      time.Time `json:"at"`
	Control Usage     `json:"control"`
	Test    Usage     `json:"test"`
}

// Of adds to what a server says what this machine knows of it. command prints the bytes on disk; "": they are looked up.
func Of(ctx context.Context, s Size, command string) (u Usage) {
	u.Server, u.ServerBy, u.Missing = s.Bytes, s.By, s.Why
	u.CPU = s.CPU.Seconds()
	if s.Process != 0 {
		p, err := processes(s.Process)
		if err != nil {
			u.Misses("CPU and I/O: %v", err)
		}
		u.CPU, u.Read, u.Written = p.cpu.Seconds(), p.read, p.written
	}
	u.disk(ctx, command, s.Files)
	return u
}

// disk fills in what a command prints, or what the files take.
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
		space, err := used.Directory(ctx, files)
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

// Misses notes what is not known.
func (u *Usage) Misses(format string, args ...any) {
	u.Missing = append(u.Missing, fmt.Sprintf(format, args...))
}

// printed is the number that a command prints first.
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
		return 0, fmt.Errorf("%q printed no number of bytes: %w", command, err)
	}
	return n, nil
}
