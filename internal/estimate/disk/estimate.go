package disk

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// Compute estimates the files below a path, or one file. It counts and leaves out what can't be read or
// changes meanwhile, symbolic links, and other filesystems mounted below. A file with several names counts
// once.
func Compute(ctx context.Context, path string, o Options) (*Result, error) {
	w, err := newWalk(ctx, path, o)
	if err != nil {
		return nil, err
	}
	if err := w.each(w.count); err != nil {
		return nil, err
	}
	counted := w.r
	switch {
	case counted.Files == 0 && counted.Unread > 0:
		return nil, fmt.Errorf("%s: %w", path, ErrUnread)
	case counted.Records == 0 && counted.Fixed == 0:
		return nil, fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	w.step = 1
	if o.Sample > 0 && int64(o.Sample) < counted.Records {
		w.step = float64(counted.Records) / float64(o.Sample)
		w.first = w.step * rand.New(rand.NewPCG(0x6469736b, o.Seed)).Float64()
	}
	w.total = counted.Bytes
	if err := w.pass(w.file); err != nil {
		return nil, err
	}
	w.r.Changed += max(counted.Files-w.r.Files-w.r.Unread+counted.Unread, 0) // removed since
	if w.r.Computed == 0 && w.r.Fixed == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrUnread)
	}
	w.finish()
	if o.Mount != nil {
		if err := w.measure(); err != nil {
			return nil, err
		}
	}
	return &w.r, nil
}

func (w *walk) finish() {
	for i := range w.sums {
		s := &w.sums[i]
		s.scale(w.r.Records, float64(w.r.Computed)*w.step)
		e := Estimate{Logical: int64(math.Round(s.logical)), Physical: int64(math.Round(s.physical)), Margin: 1.96 * s.error(w.step), RaidBytes: int64(math.Round(s.raid))}
		if i < len(w.o.ZFS) {
			w.finishZFS(&e, &w.o.ZFS[i])
		} else {
			w.finishBtrfs(&e, &w.o.Btrfs[i-len(w.o.ZFS)])
		}
		e.Margin *= e.Ratio
		w.r.Estimates = append(w.r.Estimates, e)
	}
}

// error returns the error to report for a codec. It is larger for Go's zstd, since all filesystems use
// libzstd.
func (w *walk) error(alg string, a accuracy) float64 {
	if alg == "zstd" && w.o.Engine.ZstdName() != "libzstd" {
		return goZstdError
	}
	return a.most
}

func (w *walk) finishZFS(e *Estimate, z *ZFS) {
	e.Setting = fmt.Sprintf("%s %s/%d", z.Compression, recordsize(z.Recordsize), z.Ashift)
	e.Error = w.error(z.alg, z.accuracy)
	e.Metadata = z.metadata(w.r.Files, w.r.Records)
	e.Ratio = float64(e.Logical+e.Metadata) / float64(max(e.Takes(), 1))
	e.Printed = fmt.Sprintf("%.2fx", math.Floor(100*e.Ratio)/100)
}

func (w *walk) finishBtrfs(e *Estimate, b *Btrfs) {
	e.Setting = b.Compression
	if b.Force {
		e.Setting += " force"
	}
	unknown := float64(e.Physical) / float64(max(e.Physical+w.r.FixedSize, 1))
	e.Error, e.Margin = w.error(b.alg, b.accuracy)*unknown, e.Margin*unknown
	e.Logical += w.r.FixedSize
	e.Physical += w.r.FixedSize
	e.ratio()
}

// recordsize formats a size as zfs does.
func recordsize(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}
