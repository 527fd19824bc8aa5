package main

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

var long = flag.Bool("example.long", false, "try the example with its A/A phase, for some minutes")

// The example in short. It checks everything except latencies, since other programs may use the machine.
func TestExample(t *testing.T) {
	testenv.Full(t)
	if err := check(); err != nil {
		t.Skip(err)
	}
	testenv.Program(t, "compsize")
	page := filepath.Join(t.TempDir(), "page.html")
	t.Setenv("TMPDIR", testenv.OpenTempDir(t)) // other examples may run beside it
	var out, progress bytes.Buffer
	args := []string{
		"--cinch", testenv.Cinch(t), "--html", page, "--scale", "1", "--events", "10000", "--duration", "15s", "--batch", "1s", "--rate", "25", "--fsync=false",
	}
	if *long {
		args = append(args, "--aa", "90s", "--duration", "90s")
	}
	got, err := run(t.Context(), args, &out, &progress)
	t.Logf("%s\n%s", &progress, &out)
	if err != nil {
		t.Fatal(err)
	}
	got.judge(t)
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "on disk (btrfs), at the end") {
		t.Errorf("page: %v, %d bytes", err, len(html))
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || strings.Contains(string(mounts), os.Getenv("TMPDIR")) {
		t.Errorf("left behind: %v, %s", err, mounts)
	}
}

// judge checks that storage is as the filesystem reports it, that data is equal, and that there are batches
// of reads and of writes.
func (o *outcome) judge(t *testing.T) {
	t.Helper()
	r := o.Report
	if r.Outcome == "VOID" || len(o.Unequal) > 0 || r.Compared.Different > 0 || r.Compared.Equal < 100 {
		t.Errorf("%s %q, %+v, tables that differ: %v", r.Outcome, r.Reasons, r.Compared, o.Unequal)
	}
	if !r.SelfTested && !o.Noisy {
		t.Error("the self-test was not done")
	}
	if r.End == nil {
		t.Fatal("the report has no storage")
	}
	for _, table := range r.Data {
		if table.State != shadow.TableEqual || table.Sampled {
			t.Errorf("%s, sampled %v", table, table.Sampled)
		}
	}
	if len(r.Data) < len(checksums) || r.DataTrouble != "" {
		t.Errorf("the data check had %d tables: %s", len(r.Data), r.DataTrouble)
	}
	for i, disk := range []int64{r.End.Control.Disk, r.End.Test.Disk} {
		if off := math.Abs(float64(disk)/float64(o.Compsize[i]) - 1); off > 0.01 {
			t.Errorf("target %d takes %d, compsize says %d", i, disk, o.Compsize[i])
		}
	}
	if share := float64(r.End.Test.Disk) / float64(r.End.Control.Disk); share > 0.4 {
		t.Errorf("the test takes %.2f of the control", share)
	}
	judged, machines := map[string]bool{}, false
	for _, m := range r.Metrics {
		kind, _, _ := strings.Cut(m.Name, " ")
		narrow := m.High > m.Low && m.Low > 0 || !*long // noise may delay the first interval
		judged[kind] = judged[kind] || m.Judged && m.Batches > 0 && narrow
		machines = machines || m.Baseline > 0
	}
	if machines != *long {
		t.Errorf("metrics have something of an A/A phase: %v, wanted %v", machines, *long)
	}
	if !judged["reads"] || !judged["writes"] {
		t.Errorf("reads or writes are not judged: %+v", r.Metrics)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--scale 0":    "at least 1",
		"--batch 1ms":  "100ms",
		"--rate 0":     "more than 0",
		"--aa -1s":     "not negative",
		"shadow":       `"shadow" is not a flag`,
		"--unknown x":  "unknown",
		"--duration 0": "more than 0",
	} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
