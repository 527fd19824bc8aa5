package testenv

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// Command runs a program to its end and returns what it printed; a failure ends the test. Unlike Run it serves clean-up too,
// when the context of the test has ended.
func Command(t testing.TB, name string, args ...string) string {
	t.Helper()
	NeedsPrograms(t)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// compsizeTotal is of compsize's table: type, percent, disk usage, uncompressed, referenced.
var compsizeTotal = regexp.MustCompile(`(?m)^TOTAL\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)`)

// Compsize is the bytes that the files under a directory of a btrfs take on disk, when all is written.
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
