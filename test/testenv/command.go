package testenv

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// Command runs a program to its end and returns what it printed; a failure ends the test. Unlike Run it
// also works in clean-up functions, after the test's context has ended.
func Command(t testing.TB, name string, args ...string) string {
	t.Helper()
	NeedsPrograms(t)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// compsizeTotal matches the total of compsize's table: type, percent, disk usage, uncompressed, referenced.
var compsizeTotal = regexp.MustCompile(`(?m)^TOTAL\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)`)

// Compsize syncs a directory of a btrfs and returns the bytes that its files take on disk.
func Compsize(t testing.TB, dir string) int64 {
	t.Helper()
	Command(t, "sync", "-f", dir)
	m := compsizeTotal.FindStringSubmatch(Command(t, "compsize", "-b", dir))
	if m == nil {
		t.Fatal("compsize printed no total")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
