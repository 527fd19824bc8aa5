package disk

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// measure stores the sample with each setting of btrfs, and replaces the computed figures by the result.
func (w *walk) measure() error {
	r := w.r
	for i := range w.o.Btrfs {
		b, e := &w.o.Btrfs[i], &r.Estimates[len(w.o.ZFS)+i]
		n, err := w.store(b, &r)
		if err != nil {
			return err
		}
		before := e.Ratio
		e.Physical = n + r.FixedSize
		e.ratio()
		e.Margin *= e.Ratio / max(before, math.SmallestNonzeroFloat64)
		e.Measured, e.Error = true, 0
	}
	w.r = r
	return nil
}

// volumeError is an error of the volume, not of the file that is read.
type volumeError struct{ error }

func (e volumeError) Unwrap() error { return e.error }

// store writes the sample to a filesystem with setting b, and returns the size of all files, extrapolated from its size
// there.
func (w *walk) store(b *Btrfs, r *Result) (n int64, err error) {
	most := min(r.Bytes-r.FixedSize, r.Computed*btrfsChunk)
	v, err := w.o.Mount(w.ctx, *b, most)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	number := int64(0)
	err = w.pass(func(f *os.File, st *syscall.Stat_t) error {
		number++
		return w.sample(f, st, func(at int64, _, data []byte) error {
			for _, s := range dataOf(f, at, int64(len(data))) {
				if err := v.Write(number, st.Size, at+s[0], data[s[0]:s[1]]); err != nil {
					return volumeError{err}
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	if n, err = v.Stored(); err != nil || w.r.Computed == 0 {
		return 0, err
	}
	return int64(math.Round(float64(n) * float64(w.r.Records) / float64(w.r.Computed))), nil
}
