package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A new node on btrfs has the size that cinch plan --disk has predicted. Its later size is shown beside that.
func TestPrediction(t *testing.T) {
	testenv.Full(t)
	c := newCell(t)
	a := &c.Nodes[0]
	dir := filepath.Dir(a.Directory)
	onBtrfs(t, c, dir)
	mustExec(t, a, `CREATE TABLE t AS SELECT i, 'order ' || md5((i % 1000)::text) || ' of rice and basil' AS v FROM generate_series(1, 200000) i`)
	mustExec(t, a, "VACUUM t")
	mustExec(t, a, "CHECKPOINT")

	var out strings.Builder
	problems, err := (&Rollout{Cell: c}).Plan(t.Context(), &out)
	if err != nil || problems > 0 {
		t.Errorf("%d problems, %v", problems, err)
	}
	for _, want := range []string{
		"without WAL on btrfs compress-force=zstd:3, -", "pg_basebackup", "to copy: about ", "touch ", "at most 1m0s", "SELECT pg_promote() at a2", "the data of a remains in " + a.Directory,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the plan does not say %q", want)
		}
	}
	t.Logf("\n%s", &out)

	r := &Rollout{Cell: c, Yes: true, Tell: func(node, text string) { t.Log(node, text) }}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := r.state.Nodes["a"]
	if off := share(p.Backup.Data, p.Predicted.Bytes) - 1; math.Abs(off) > 0.02 || p.Backup.By != byCompsize {
		t.Errorf("predicted %d, takes %+v: %+.3f", p.Predicted.Bytes, p.Backup, off)
	}
	if p.Backup.Data > p.Old.Data/2 {
		t.Errorf("%d of %d", p.Backup.Data, p.Old.Data)
	}
	mustExec(t, a.Replacement, "UPDATE t SET v = v || '.' WHERE i % 10 = 0")
	mustExec(t, a.Replacement, "CHECKPOINT")
	s, err := c.ReadState()
	if err != nil {
		t.Fatal(err)
	}
	s.Look(t.Context(), c)
	out.Reset()
	if err := s.Text(&out); err != nil || s.Nodes["a"].Now.Data <= p.Backup.Data || !strings.Contains(out.String(), "a2, primary") || !strings.Contains(out.String(), "% since)") {
		t.Errorf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
}

// onBtrfs puts the replacements on a separate btrfs, predicted by this tree's program, which the server's
// user can run.
func onBtrfs(t *testing.T, c *Cell, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a filesystem")
	}
	testenv.Program(t, "mkfs.btrfs")
	testenv.Program(t, "compsize")
	program, err := os.ReadFile(testenv.Cinch(t))
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "btrfs")
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "cinch"), program, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, 4<<30), os.Mkdir(at, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Command(t, "mkfs.btrfs", "-q", image)
	testenv.Command(t, "mount", "-o", "loop,compress-force=zstd:3", image, at)
	t.Cleanup(func() {
		made := c.Nodes[0].Replacement
		_, _ = made.command(context.Background(), made.program("pg_ctl"), "stop", "-D", made.Directory, "-m", "immediate")
		testenv.Command(t, "umount", at)
	})
	testenv.Command(t, "chown", "--reference", c.Nodes[0].Directory, at)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Cinch, n.Root = filepath.Join(dir, "cinch"), []string{}
		n.Replacement.Cinch, n.Replacement.Root, n.Replacement.Directory = n.Cinch, n.Root, filepath.Join(at, n.Name)
	}
}

// The sizes before and after a replacement include the tablespaces.
func TestSizesIncludeTablespaces(t *testing.T) {
	testenv.NeedsPrograms(t)
	old, made, oldSpace, space := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for _, d := range []string{old, made, oldSpace, space} {
		if err := os.WriteFile(filepath.Join(d, "PG_VERSION"), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	k := &task{
		cell: &Cell{}, oldNode: &Node{Name: "a", Directory: old}, newNode: &Node{Name: "a2", Directory: made, Tablespaces: map[string]string{oldSpace: space}},
		progress: &Progress{}, record: func(string) error { return nil }, log: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
	}
	if err := k.findRoom(t.Context(), &findings{}); err != nil || k.progress.Old.Data < 2<<20 {
		t.Errorf("the old node takes %+v: %v", k.progress.Old, err)
	}
	if err := (retirement{task: k, yes: true}).keep(t.Context()); err != nil || k.progress.Now.Data < 2<<20 || len(said) != 1 {
		t.Errorf("the new node takes %+v: %v, %q", k.progress.Now, err, said)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		at   place
		name string
		args string
	}{
		{place{filesystem: "btrfs", options: "rw,noatime,compress-force=zstd:3,ssd"}, "compress-force=zstd:3", "--compression zstd:3 --force"},
		{place{filesystem: "btrfs", options: "rw,compress=lzo"}, "compress=lzo", "--compression lzo"},
		{place{filesystem: "btrfs", options: "rw,relatime"}, "no compression", "--compression off"},
		{place{filesystem: "zfs", options: "16384 zstd-3 0"}, "zstd-3, recordsize 16384", "--compression zstd-3 --recordsize 16384 --ashift 12"},
	} {
		s, ok := c.at.setting()
		if !ok || s.name != c.name || !slices.Equal(s.args, strings.Fields(c.args)) {
			t.Errorf("%+v: %+v %t", c.at, s, ok)
		}
	}
	if _, ok := (place{filesystem: "ext4"}).setting(); ok {
		t.Error("ext4 compresses")
	}
}
