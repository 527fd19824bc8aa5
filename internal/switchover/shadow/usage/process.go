package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// work is the resource use of processes.
type work struct {
	cpu           time.Duration
	read, written int64 // bytes, from and to disks
}

// processes adds up a process and its children, including those that have ended. It fails if this process has
// no access to them.
func processes(pid int) (work, error) {
	u, err := one(pid)
	if err != nil {
		return u, err
	}
	pids, err := children(pid)
	if err != nil {
		return u, err
	}
	for _, child := range pids {
		switch more, err := one(child); {
		case errors.Is(err, fs.ErrNotExist): // its parent's figures include it now, or soon
		case err != nil:
			return u, err
		default:
			u.cpu += more.cpu
			u.read += more.read
			u.written += more.written
		}
	}
	return u, nil
}

// children returns the children of a process's first thread.
func children(pid int) (pids []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	for field := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, child)
	}
	return pids, nil
}

// tick is the unit of /proc/PID/stat: USER_HZ, which is 100 on every Linux.
const tick = 10 * time.Millisecond

// Fields of /proc/PID/stat, counted from the state, which follows the name: the parent; user and system time,
// of the process and of the children that it has waited for.
const (
	parentAt = 1
	timesAt  = 11
	times    = 4
)

// one returns the use of a process, including its ended children.
func one(pid int) (u work, err error) {
	fields, err := stat(pid)
	if err != nil {
		return u, err
	}
	for _, field := range fields[timesAt : timesAt+times] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(n) * tick
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "read_bytes":
			u.read = n
		case "write_bytes":
			u.written += n
		case "cancelled_write_bytes":
			u.written -= n
		}
	}
	return u, nil
}

func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name may hold anything but ends at the last parenthesis.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < timesAt+times {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// Parent returns the parent of a process.
func Parent(pid int) (int, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(fields[parentAt])
}
