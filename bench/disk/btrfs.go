package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/test/rig"
)

// compsizeTotal matches the last line of compsize's table: type, percent, disk usage, uncompressed,
// referenced.
var compsizeTotal = regexp.MustCompile(`(?m)^TOTAL\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)`)

// btrfs copies the directory to a new filesystem for each setting.
func btrfs(ctx context.Context, o *options) (string, error) {
	var settings []disk.Btrfs
	for _, c := range []string{"zstd:1", "zstd:3", "zstd:9", "zlib:1", "zlib:3", "zlib:9", "lzo"} {
		settings = append(settings, disk.Btrfs{Compression: c}, disk.Btrfs{Compression: c, Force: true})
	}
	r, err := o.compute(ctx, disk.Options{Btrfs: settings})
	if err != nil {
		return "", err
	}
	var t rig.Table
	t.WriteString(o.about(r))
	t.Row("mounted with", "estimate, bytes", "compsize, bytes", "off by", "ratio")
	t.Rule(5)
	for i, b := range settings {
		option := "compress=" + b.Compression
		if b.Force {
			option = "compress-force=" + b.Compression
		}
		truth, err := o.compsize(ctx, option)
		if err != nil {
			return "", err
		}
		e := r.Estimates[i]
		t.Row(option, fmt.Sprint(e.Physical), fmt.Sprint(truth), fmt.Sprintf("%+.4f%%", 100*float64(e.Physical-truth)/float64(truth)), fmt.Sprintf("%.2f", e.Ratio))
	}
	return t.String(), nil
}

// compsize returns the disk usage, in bytes, of the directory on a filesystem mounted with the option.
func (o *options) compsize(ctx context.Context, option string) (int64, error) {
	image, mnt := filepath.Join(o.work, "image"), filepath.Join(o.work, "mnt")
	defer os.Remove(image)
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return 0, err
	}
	// The image is large but sparse: a small filesystem flushes early and splits files at other places.
	if err := os.Truncate(image, 64<<30); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(mnt, 0o700); err != nil {
		return 0, err
	}
	if _, err := output(ctx, "mkfs.btrfs", "-q", image); err != nil {
		return 0, err
	}
	if _, err := output(ctx, "mount", "-o", "loop,"+option, image, mnt); err != nil {
		return 0, err
	}
	defer func() { _ = exec.Command("umount", mnt).Run() }() // without the context, so that it always runs
	if _, err := output(ctx, "cp", "-r", o.dir+"/.", mnt); err != nil {
		return 0, err
	}
	if _, err := output(ctx, "sync", "-f", mnt); err != nil {
		return 0, err
	}
	text, err := output(ctx, "compsize", "-b", mnt)
	if err != nil {
		return 0, err
	}
	m := compsizeTotal.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("compsize printed no total:\n%s", text)
	}
	return strconv.ParseInt(m[1], 10, 64)
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return string(out), nil
}
