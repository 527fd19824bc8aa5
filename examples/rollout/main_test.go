package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The example in short. The test logs but does not check how long clients were held: the machine may be busy.
func TestExample(t *testing.T) {
	testenv.Full(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can mount filesystems")
	}
	for _, program := range []string{"mkfs.btrfs", "mkfs.ext4", "compsize", "pgbench"} {
		testenv.Program(t, program)
	}
	testenv.PostgresBin(t)
	page := filepath.Join(t.TempDir(), "page.html")
	t.Setenv("TMPDIR", testenv.OpenTempDir(t)) // other examples may run beside it
	var out, progress bytes.Buffer
	got, err := run(t.Context(), []string{
		"--cinch", testenv.Cinch(t), "--html", page, "--scale", "1", "--events", "3000", "--clients", "8", "--rate", "20", "--tellers", "2", "--after", "1s", "--fsync=false",
	}, &out, &progress)
	t.Logf("%s\n%s", &progress, &out)
	if err != nil {
		t.Fatal(err)
	}
	got.judge(t)
	html, err := os.ReadFile(page)
	for _, want := range []string{"What the nodes take", "The pause", "No commit is lost"} {
		if err != nil || !strings.Contains(string(html), want) {
			t.Errorf("page: %v, %d bytes without %q", err, len(html), want)
		}
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || strings.Contains(string(mounts), os.Getenv("TMPDIR")) {
		t.Errorf("left behind: %v, %s", err, mounts)
	}
}

// judge checks that nothing was lost or applied twice, that no client reconnected, and that storage is as
// predicted.
func (o *outcome) judge(t *testing.T) {
	t.Helper()
	if err := o.wrong(); err != nil {
		t.Error(err)
	}
	if o.Bench.Clients != 8 || o.Bench.Committed < 100 || o.Bank.Committed < 100 || len(o.Bench.Pauses) == 0 {
		t.Errorf("clients hardly worked: %d of %d clients, %d, %d paused", o.Bench.Committed, o.Bench.Clients, o.Bank.Committed, len(o.Bench.Pauses))
	}
	if !o.State.Done || strings.Join(o.State.Order, " ") != "b c a" {
		t.Errorf("done: %t, order %q", o.State.Done, o.State.Order)
	}
	for name, p := range o.State.Nodes {
		if p.Old.By != "du" || p.Backup.By != "compsize" || p.Now.Data < p.Backup.Data || p.Backup.Data > p.Old.Data/2 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := o.State.Nodes["a"]; p.Pause == 0 || o.pause() == 0 || len(o.Gateway.Sessions) == 0 && o.Gateway.Upstream == "" {
		t.Errorf("paused %v, %v; %+v", p.Pause, o.pause(), o.Gateway)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--scale 0":   "at least 1",
		"--tellers 0": "at least 1",
		"--rate 0":    "more than 0",
		"--after -1s": "negative",
		"rollout":     `"rollout" is not a flag`,
		"--unknown x": "unknown",
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
