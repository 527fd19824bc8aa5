package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/codec"
)

// Options say what to compute. Either ZFS or Btrfs is given, with one or more settings,
// which all get the same records, so that they can be compared even where a sample is small.
type Options struct {
	Engine   *codec.Engine
	ZFS      []ZFS
	Btrfs    []Btrfs
	Sample   int // records (of btrfs: chunks of 512 KiB) that are computed; 0: all
	Seed     uint64
	Progress func(done float64, what string)
}

// Estimate is what one setting would make of the files. Its JSON is a contract: fields are
// added, never renamed.
type Estimate struct {
	Setting   string  `json:"setting"`
	Logical   int64   `json:"logical_bytes"`  // what is compressed: without holes
	Physical  int64   `json:"physical_bytes"` // of data
	Metadata  int64   `json:"metadata_bytes,omitempty"`
	Ratio     float64 `json:"ratio"`                  // as the filesystem's own tool counts it
	Margin    float64 `json:"ratio_margin,omitempty"` // 95 %; 0: all was computed
	Printed   string  `json:"printed"`                // what that tool would print
	RaidBytes int64   `json:"raidz_bytes,omitempty"`
}

// Result is what is known of the files.
type Result struct {
	Files     int64      `json:"files"`
	Bytes     int64      `json:"bytes"` // lengths of the files
	Records   int64      `json:"records"`
	Computed  int64      `json:"computed_records"`
	Unread    int64      `json:"unread_files,omitempty"`
	Estimates []Estimate `json:"estimates"`
}

// ErrEmpty: there is no file with data in it.
var ErrEmpty = errors.New("no data")

// Compute walks over the files below a path. Directories and files that can't be read are
// counted; other filesystems mounted below are left out.
func Compute(ctx context.Context, path string, o Options) (*Result, error) {
	w := &walk{o: o, ctx: ctx, c: &compressor{engine: o.Engine}}
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
	w.sums = make([]sum, len(o.ZFS)+len(o.Btrfs))
	var records int64
	err := w.each(path, func(_ string, size int64) error {
		w.r.Files++
		w.r.Bytes += size
		records += (size + int64(w.unit(size)) - 1) / int64(w.unit(size))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if records == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	w.step = 1
	if o.Sample > 0 && int64(o.Sample) < records {
		w.step = float64(records) / float64(o.Sample)
		w.next = w.step * rand.New(rand.NewPCG(0x6469736b, o.Seed)).Float64()
	}
	w.r.Unread = 0
	if err := w.each(path, w.file); err != nil {
		return nil, err
	}
	w.finish()
	return &w.r, nil
}

type walk struct {
	o   Options
	ctx context.Context
	c   *compressor
	r   Result

	step, next float64 // every so many records one is computed
	seen       float64
	done       int64 // bytes
	buf        []byte
	begin      [btrfsUnit]byte
	sums       []sum
}

// sum is of one setting. The error of a systematic sample is estimated from the
// differences between neighbours, as files go over into each other.
type sum struct {
	logical, physical, raid float64
	pairs                   [][2]float32 // of each computed record, when it is a sample
}

func (w *walk) each(path string, f func(name string, size int64) error) error {
	var device uint64
	return filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if ctxErr := w.ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		if err != nil && name == path {
			return err
		}
		if err != nil {
			w.r.Unread++
			return nil
		}
		if e.IsDir() {
			var st unix.Stat_t
			if unix.Lstat(name, &st) == nil {
				if name == path {
					device = st.Dev
				} else if st.Dev != device {
					return fs.SkipDir
				}
			}
			return nil
		}
		info, err := e.Info()
		if err != nil || !e.Type().IsRegular() || info.Size() == 0 {
			return nil
		}
		return f(name, info.Size())
	})
}

// unit is how many bytes of a file are computed together.
func (w *walk) unit(size int64) int {
	if len(w.o.ZFS) > 0 {
		return w.o.ZFS[0].fileRecord(size)
	}
	return btrfsChunk
}

func (w *walk) file(name string, size int64) error {
	if w.o.Progress != nil {
		w.o.Progress(float64(w.done)/float64(max(w.r.Bytes, 1)), filepath.Base(name))
	}
	w.done += size
	f, err := os.Open(name)
	if err != nil {
		w.r.Unread++
		return nil
	}
	defer f.Close()
	unit := int64(w.unit(size))
	states := make([]btrfsFile, len(w.o.Btrfs))
	for i := range states {
		states[i].size = size
	}
	for at := int64(0); at < size; at += unit {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		w.r.Records++
		take := w.seen >= w.next
		w.seen++
		if !take {
			continue
		}
		w.next += w.step
		w.r.Computed++
		if err := w.record(f, at, min(unit, size-at), unit, states); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// record reads one record and computes all settings on it.
func (w *walk) record(f *os.File, at, n, unit int64, states []btrfsFile) error {
	if int64(cap(w.buf)) < unit {
		w.buf = make([]byte, unit)
	}
	data := w.buf[:n]
	if got, err := f.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if got < int(n) {
		clear(data[got:]) // it was cut off while we look
	}
	full := w.buf[:unit]
	clear(full[n:])
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
	stretches := dataOf(f, at, n)
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

// refused keeps what the heuristic says of the beginning of the range that a place is in.
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

// dataOf lists what of a stretch of a file is no hole, from its beginning.
func dataOf(f *os.File, at, n int64) (list [][2]int64) {
	fd := int(f.Fd())
	for from := at; from < at+n; {
		data, err := unix.Seek(fd, from, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return list
		}
		if err != nil {
			return [][2]int64{{0, n}} // the filesystem knows of no holes
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

func (s *sum) add(logical, physical int, step float64) {
	s.logical += float64(logical) * step
	s.physical += float64(physical) * step
	if step > 1 {
		s.pairs = append(s.pairs, [2]float32{float32(logical), float32(physical)})
	}
}

// error is the standard error of physical/logical as a share of it.
func (s *sum) error(step float64) float64 {
	n := len(s.pairs)
	if n < 3 || s.physical == 0 {
		return 0
	}
	ratio, squares, before := s.physical/s.logical, 0.0, 0.0
	var total float64
	for i, p := range s.pairs {
		residual := float64(p[1]) - ratio*float64(p[0])
		if i > 0 {
			squares += (residual - before) * (residual - before)
		}
		before = residual
		total += float64(p[1])
	}
	variance := squares / 2 / float64(n-1) * (1 - 1/step)
	return math.Sqrt(variance*float64(n)) / total
}

func (w *walk) finish() {
	for i := range w.sums {
		s := &w.sums[i]
		e := Estimate{Logical: int64(s.logical), Physical: int64(s.physical), Margin: 1.96 * s.error(w.step), RaidBytes: int64(s.raid)}
		if i < len(w.o.ZFS) {
			z := &w.o.ZFS[i]
			e.Setting = fmt.Sprintf("%s %dK/%d", z.Compression, z.Recordsize>>10, z.Ashift)
			e.Metadata = z.metadata(w.r.Files, w.r.Records)
			e.Ratio = float64(e.Logical+e.Metadata) / float64(max(e.Physical+e.Metadata, 1))
			e.Printed = fmt.Sprintf("%.2fx", math.Floor(100*e.Ratio)/100)
		} else {
			b := &w.o.Btrfs[i-len(w.o.ZFS)]
			e.Setting = b.Compression
			if b.Force {
				e.Setting += " force"
			}
			e.Ratio = float64(e.Logical) / float64(max(e.Physical, 1))
			e.Printed = fmt.Sprintf("%.0f%%", 100/e.Ratio)
		}
		e.Margin *= e.Ratio
		w.r.Estimates = append(w.r.Estimates, e)
	}
}
