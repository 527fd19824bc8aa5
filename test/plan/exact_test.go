package plan

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/estimate/disk/tempbtrfs"
	"github.com/cinch-layer/cinch/test/testenv"
)

// cinch plan --disk btrfs --exact works from the command line to a real filesystem, and cleans up when it
// ends, is interrupted, or is killed in the middle.
func TestExact(t *testing.T) {
	t.Parallel()
	err := tempbtrfs.Check()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true" && !errors.Is(err, tempbtrfs.ErrRoot) && !errors.Is(err, tempbtrfs.ErrBtrfs):
		t.Fatalf("%v; run: scripts/servers install btrfs", err)
	default:
		t.Skip(err)
	}
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "file"), orders(12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int
	}{{"to its end", 0, 0}, {"interrupted", syscall.SIGINT, 130}, {"terminated", syscall.SIGTERM, 130}, {"killed", syscall.SIGKILL, -1}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "terminated" {
				testenv.Full(t)
			}
			images := t.TempDir()
			compression := "lzo,zstd:3,zlib:3,zstd:3,lzo,zstd:1,zlib:1,zstd:1"
			if c.signal == 0 {
				compression = "zstd:3"
			}
			cmd := exec.Command(testenv.Cinch(t), "plan", "--disk", "btrfs", data, "--exact", "--force", "--compression", compression, "--sample", "40")
			cmd.Env = append(os.Environ(), "TMPDIR="+images)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if c.signal != 0 {
				until(t, "a loop device", func() bool { return strings.Contains(loops(t), images) })
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || code == 0 && !strings.Contains(out.String(), "measured") {
				t.Errorf("ended with %d:\n%s", code, out.String())
			}
			until(t, "no loop device", func() bool { return !strings.Contains(loops(t), images) })
			if left, err := os.ReadDir(images); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

func orders(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("x", i%7) + time.Unix(int64(i)*7919, 0).UTC().Format(time.RFC3339) + " basil, rice\n")
	}
	return b.Bytes()
}

func loops(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v\n%s", err, out)
	}
	return string(out)
}

func until(t *testing.T, what string, there func() bool) {
	t.Helper()
	for since := time.Now(); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Since(since) > 10*time.Minute {
			t.Fatalf("waited for %s; there is %s", what, loops(t))
		}
	}
}
