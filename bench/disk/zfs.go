package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/test/rig"
)

// pools writes the directory to pools of ZFS in user space.
func pools(ctx context.Context, o *options) (string, error) {
	var t rig.Table
	for i, pool := range []struct {
		recordsize, ashift int
		settings           []string
	}{
		{8 << 10, 12, []string{"lz4", "zstd-3"}},
		{16 << 10, 12, []string{"lz4", "zstd-3"}},
		{64 << 10, 12, []string{"lz4", "zstd-1", "zstd-3", "zstd-9", "gzip-6"}},
		{128 << 10, 12, []string{"lz4", "zstd-1", "zstd-3"}},
		{64 << 10, 9, []string{"lz4", "zstd-3"}},
		{1 << 20, 12, []string{"lz4", "zstd-3"}},
	} {
		var run disk.Options
		for _, c := range pool.settings {
			run.ZFS = append(run.ZFS, disk.ZFS{Recordsize: pool.recordsize, Ashift: pool.ashift, Compression: c, CapToSector: true})
		}
		r, err := o.compute(ctx, run)
		if err != nil {
			return "", err
		}
		truth, err := o.pool(ctx, pool.recordsize, pool.ashift, pool.settings)
		if err != nil {
			return "", err
		}
		if i == 0 {
			t.WriteString(o.about(r))
			t.Row("setting", "estimate, bytes of data", "pool", "off by", "estimate, compressratio", "pool")
			t.Rule(6)
		}
		for k, e := range r.Estimates {
			p := truth[k]
			t.Row(e.Setting, fmt.Sprint(e.Physical), fmt.Sprint(p.physical), fmt.Sprintf("%+.4f%%", 100*float64(e.Physical-p.physical)/float64(p.physical)),
				e.Printed, fmt.Sprintf("%d.%02dx", p.ratio/100, p.ratio%100))
		}
	}
	return t.String(), nil
}

type stored struct{ files, bytes, logical, physical, ratio int64 }

// pool returns what test/zfs/run prints, one entry per setting.
func (o *options) pool(ctx context.Context, recordsize, ashift int, settings []string) (list []stored, err error) {
	cmd := exec.CommandContext(ctx, "test/zfs/run", append([]string{o.dir, fmt.Sprint(recordsize), fmt.Sprint(ashift)}, settings...)...)
	cmd.Env = append(os.Environ(), "WORK="+o.work)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("test/zfs/run: %w", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var s stored
		var name string
		if _, err := fmt.Sscan(line, &name, &s.files, &s.bytes, &s.logical, &s.physical, &s.ratio); err != nil || i >= len(settings) || name != settings[i] {
			return nil, fmt.Errorf("test/zfs/run printed %q", line)
		}
		list = append(list, s)
	}
	if len(list) != len(settings) {
		return nil, fmt.Errorf("test/zfs/run printed %d lines of %d", len(list), len(settings))
	}
	return list, nil
}
