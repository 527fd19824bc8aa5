package plan

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

func documentsFile(t testing.TB) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for range 300 {
		b.WriteString(document(r) + "\n")
	}
	name := filepath.Join(t.TempDir(), "orders.jsonl")
	must(t, nil, os.WriteFile(name, []byte(b.String()), 0o600))
	return name
}

// Output that can't be written is an error.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	file := documentsFile(t)
	for _, args := range [][]string{{}, {"--json"}, {"--details"}} {
		cmd := exec.Command(testenv.Cinch(t), append([]string{"plan", file, "--candidates", "lz4"}, args...)...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &errs
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("plan %q: %v\n%s", args, err, errs.String())
		}
	}
}

// A full disk leaves no partial page or configuration behind.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("a small filesystem can't be mounted: %v", err)
	}
	defer func() { must(t, nil, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	file := documentsFile(t)
	for _, args := range [][]string{
		{"--html", filepath.Join(dir, "report.html")},
		// Not enough room for the dictionary and the file.
		{"--write", filepath.Join(dir, "cinch.yaml"), "--minimize", "bytes"},
		{"--write", filepath.Join(t.TempDir(), "cinch.yaml"), "--html", filepath.Join(dir, "report.html")},
		{"--keep-samples", filepath.Join(dir, "samples")},
	} {
		e := cinch(t, append([]string{"plan", file, "--candidates", "zstd-3+dict"}, args...)...)
		if e.code != 1 || !strings.Contains(e.err, "no space left") {
			t.Errorf("plan %q ended with %d: %s%s", args, e.code, e.out, e.err)
		}
		for _, of := range []string{dir, filepath.Dir(args[1])} {
			left, err := filepath.Glob(filepath.Join(of, "*"))
			if must(t, nil, err); len(left) > 0 && !strings.HasSuffix(args[1], "samples") {
				t.Errorf("plan %q left %q", args, left)
			}
		}
	}
}
