package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// walk passes over the files twice: it counts records, and then computes those of the sample.
type walk struct {
	o     Options
	ctx   context.Context
	path  string
	btrfs bool // the files are on btrfs, and computed for btrfs
	c     *compressor
	r     Result
	total int64 // of all files, as counted
	names map[uint64]struct{}

	step, first, next float64 // one in step records is computed
	seen              float64
	passes            int   // over the files, including the current one
	done              int64 // bytes, in the current pass
	buf               []byte
	begin             [btrfsUnit]byte
	sums              []sum
}

func newWalk(ctx context.Context, path string, o Options) (*walk, error) {
	for i := range o.ZFS {
		if err := o.ZFS[i].Prepare(); err != nil {
			return nil, err
		}
	}
	for i := range o.Btrfs {
		if err := o.Btrfs[i].Prepare(); err != nil {
			return nil, err
		}
	}
	real, err := filepath.EvalSymlinks(path) // data directories often are links
	if err != nil {
		return nil, err
	}
	return &walk{
		o: o, ctx: ctx, path: real, btrfs: len(o.Btrfs) > 0 && onBtrfs(real),
		c: &compressor{engine: o.Engine}, sums: make([]sum, len(o.ZFS)+len(o.Btrfs)),
	}, nil
}

// pass passes over the files again, from the beginning of the sample.
func (w *walk) pass(do func(f *os.File, st *syscall.Stat_t) error) error {
	w.r, w.next, w.seen, w.done = Result{}, w.first, 0, 0
	w.passes++
	return w.each(do)
}

// each opens all regular files that are not empty, and counts what it leaves out.
func (w *walk) each(do func(f *os.File, st *syscall.Stat_t) error) error {
	var device uint64
	w.names = map[uint64]struct{}{}
	return filepath.WalkDir(w.path, func(name string, e fs.DirEntry, err error) error {
		if ctxErr := w.ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		if w.skips(name) {
			return skipped(e)
		}
		switch {
		case err != nil && name == w.path:
			return err
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			w.r.Unread++
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			w.r.Links++
			return nil
		case e.IsDir():
			return w.directory(name, e, &device)
		case !e.Type().IsRegular():
			return nil
		}
		return w.open(name, do)
	})
}

// skips reports whether a name is to be left out.
func (w *walk) skips(name string) bool {
	below, err := filepath.Rel(w.path, name)
	return err == nil && slices.Contains(w.o.Skip, below)
}

func skipped(e fs.DirEntry) error {
	if e != nil && e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func (w *walk) directory(name string, e fs.DirEntry, device *uint64) error {
	info, err := e.Info()
	if err != nil {
		return nil // removed meanwhile
	}
	here := uint64(info.Sys().(*syscall.Stat_t).Dev)
	if name == w.path {
		*device = here
	}
	if here != *device {
		w.r.Mounts++
		return fs.SkipDir
	}
	return nil
}

// open opens a file, which may have been replaced by something else: it neither waits for a pipe's writer nor
// follows a link.
func (w *walk) open(name string, do func(f *os.File, st *syscall.Stat_t) error) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.r.Unread++
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Nlink > 1 {
		if _, known := w.names[uint64(st.Ino)]; known {
			return nil
		}
		w.names[uint64(st.Ino)] = struct{}{}
	}
	err = do(f, st)
	var failed *fs.PathError
	if errors.As(err, &failed) && !errors.As(err, new(volumeError)) { // while reading: the other files are unaffected
		w.r.Unread++
		return nil
	}
	return err
}

// count counts the records of a file.
func (w *walk) count(f *os.File, st *syscall.Stat_t) error {
	if w.known(f, st) {
		return nil
	}
	return w.records(f, st, func(int64) error {
		w.r.Records++
		return nil
	})
}

// known counts a file, and reports whether no record of it has to be computed because it is never compressed.
func (w *walk) known(f *os.File, st *syscall.Stat_t) bool {
	w.r.Files++
	w.r.Bytes += st.Size
	w.r.Allocated += st.Blocks * 512
	if !w.btrfs {
		return false
	}
	n, ok := neverCompressed(f)
	if ok {
		w.r.Fixed++
		w.r.FixedSize += n
	}
	return ok
}

// unit returns how many bytes of a file are computed together.
func (w *walk) unit(size int64) int64 {
	if len(w.o.ZFS) > 0 {
		return int64(w.o.ZFS[0].fileRecord(size))
	}
	return btrfsChunk
}

// records calls do with the offset of each record that has data in it: a file may have terabytes of holes.
func (w *walk) records(f *os.File, st *syscall.Stat_t, do func(at int64) error) error {
	unit := w.unit(st.Size)
	sparse := st.Blocks*512 < st.Size
	for at := int64(0); at < st.Size; at += unit {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if sparse {
			data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
			switch {
			case errors.Is(err, unix.ENXIO):
				return nil
			case err == nil:
				at = data - data%unit
			default:
				sparse = false // the filesystem does not report holes
			}
		}
		if err := do(at); err != nil {
			return err
		}
	}
	return nil
}

// file computes the records of a file that are in the sample.
func (w *walk) file(f *os.File, st *syscall.Stat_t) error {
	states := make([]btrfsFile, len(w.o.Btrfs))
	for i := range states {
		states[i].size = st.Size
	}
	return w.sample(f, st, func(at int64, full, data []byte) error { return w.record(f, at, full, data, states) })
}

// sample reads the records of a file that are in the sample. full is data padded with zeros.
func (w *walk) sample(f *os.File, st *syscall.Stat_t, do func(at int64, full, data []byte) error) error {
	w.done += st.Size
	if w.known(f, st) {
		return nil
	}
	unit := w.unit(st.Size)
	w.show(f, st.Size, 0)
	return w.records(f, st, func(at int64) error {
		w.r.Records++
		take := w.seen >= w.next
		w.seen++
		if !take {
			return nil
		}
		w.next += w.step
		full, err := w.read(f, at, unit)
		if err != nil {
			return err
		}
		if err := do(at, full, full[:min(unit, st.Size-at)]); err != nil {
			return err
		}
		w.r.Computed++
		w.show(f, st.Size, at)
		return nil
	})
}

func (w *walk) show(f *os.File, size, at int64) {
	if w.o.Progress == nil {
		return
	}
	passes := 1
	if w.o.Mount != nil {
		passes += len(w.o.Btrfs)
	}
	share := min(float64(w.done-size+at)/float64(max(w.total, 1)), 1)
	w.o.Progress((float64(w.passes-1)+share)/float64(passes), filepath.Base(f.Name()))
}

// read reads one record.
func (w *walk) read(f *os.File, at, unit int64) (full []byte, err error) {
	if int64(cap(w.buf)) < unit {
		w.buf = make([]byte, unit)
	}
	full = w.buf[:unit]
	clear(full) // zeros replace what is truncated meanwhile
	if _, err := f.ReadAt(full, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return full, nil
}

// record computes all settings for one record.
func (w *walk) record(f *os.File, at int64, full, data []byte, states []btrfsFile) error {
	for i := range w.o.ZFS {
		z := &w.o.ZFS[i]
		b := z.record(w.c, full)
		w.sums[i].add(b.Logical, b.Physical, w.step)
		if z.Disks > 0 {
			w.sums[i].raid += w.step * float64(Raidz(b.Physical, z.Sector(), z.Disks, z.Parity))
		}
	}
	if len(states) == 0 {
		return nil
	}
	if err := w.refused(f, at, states); err != nil {
		return err
	}
	stretches := dataOf(f, at, int64(len(data)))
	for i := range w.o.Btrfs {
		logical, physical := 0, 0
		for _, s := range stretches {
			physical += w.o.Btrfs[i].chunk(w.c, &states[i], at+s[0], data[s[0]:s[1]])
			logical += int(s[1] - s[0])
		}
		if states[i].size > btrfsInline || physical >= btrfsBlock {
			logical = roundUp(logical, btrfsBlock)
		}
		w.sums[i].add(logical, physical, w.step)
	}
	return nil
}

// refused sets the heuristic's result for the beginning of the range that contains an offset.
func (w *walk) refused(f *os.File, at int64, states []btrfsFile) error {
	written := at/btrfsRange + 1
	if states[0].written == written {
		return nil
	}
	n, err := f.ReadAt(w.begin[:], (written-1)*btrfsRange)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for i := range states {
		states[i].written, states[i].refused = written, !compressible(w.begin[:n])
	}
	return nil
}

// dataOf returns the parts of a stretch of a file that are not holes, relative to its beginning.
func dataOf(f *os.File, at, n int64) (list [][2]int64) {
	fd := int(f.Fd())
	for from := at; from < at+n; {
		data, err := unix.Seek(fd, from, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return list
		}
		if err != nil {
			return [][2]int64{{0, n}} // the filesystem does not report holes
		}
		hole, err := unix.Seek(fd, data, unix.SEEK_HOLE)
		if err != nil {
			hole = at + n
		}
		if data >= at+n {
			return list
		}
		list = append(list, [2]int64{data - at, min(hole, at+n) - at})
		from = hole
	}
	return list
}
