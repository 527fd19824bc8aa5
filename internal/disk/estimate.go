package disk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

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

// Takes is how many bytes the files take with their metadata, without redundancy.
func (e *Estimate) Takes() int64 { return e.Physical + e.Metadata }

// Result is what is known of the files.
type Result struct {
	Files     int64      `json:"files"`
	Bytes     int64      `json:"bytes"`           // lengths of the files
	Allocated int64      `json:"allocated_bytes"` // what they take now, as stat says it
	Records   int64      `json:"records"`         // with data in them
	Computed  int64      `json:"computed_records"`
	Unread    int64      `json:"unread_files,omitempty"` // and directories
	Changed   int64      `json:"changed_files,omitempty"`
	Links     int64      `json:"symbolic_links,omitempty"`     // not followed
	Mounts    int64      `json:"other_filesystems,omitempty"`  // mounted below, left out
	Fixed     int64      `json:"uncompressed_files,omitempty"` // on btrfs: nodatacow or fallocated, never compressed
	FixedSize int64      `json:"uncompressed_bytes,omitempty"` // what these take
	Estimates []Estimate `json:"estimates"`
}

// ErrEmpty: there is no file with data in it.
var ErrEmpty = errors.New("no data")

// ErrUnread: there are files, and none could be read.
var ErrUnread = errors.New("no file could be read")

// Compute walks over the files below a path, or over one file. What can't be read or changes
// meanwhile is counted and left out; so are symbolic links, and other filesystems mounted
// below. A file with several names counts once.
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
		w.next = w.step * rand.New(rand.NewPCG(0x6469736b, o.Seed)).Float64()
	}
	w.r, w.total = Result{}, counted.Bytes
	if err := w.each(w.file); err != nil {
		return nil, err
	}
	w.r.Changed += max(counted.Files-w.r.Files-w.r.Unread+counted.Unread, 0) // gone since
	if w.r.Computed == 0 && w.r.Fixed == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrUnread)
	}
	w.finish()
	return &w.r, nil
}

// sum is of one setting. The error of a systematic sample is estimated from the
// differences between neighbours, as files go over into each other.
type sum struct {
	logical, physical, raid float64
	pairs                   [][2]float32 // of each computed record, when it is a sample
}

func (s *sum) add(logical, physical int, step float64) {
	s.logical += float64(logical) * step
	s.physical += float64(physical) * step
	if step > 1 {
		s.pairs = append(s.pairs, [2]float32{float32(logical), float32(physical)})
	}
}

// scale makes up for a sample that is a record larger or smaller than it should be.
func (s *sum) scale(records int64, stands float64) {
	if stands > 0 {
		f := float64(records) / stands
		s.logical, s.physical, s.raid = s.logical*f, s.physical*f, s.raid*f
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
		s.scale(w.r.Records, float64(w.r.Computed)*w.step)
		e := Estimate{Logical: int64(math.Round(s.logical)), Physical: int64(math.Round(s.physical)), Margin: 1.96 * s.error(w.step), RaidBytes: int64(math.Round(s.raid))}
		if i < len(w.o.ZFS) {
			z := &w.o.ZFS[i]
			e.Setting = fmt.Sprintf("%s %s/%d", z.Compression, recordsize(z.Recordsize), z.Ashift)
			e.Metadata = z.metadata(w.r.Files, w.r.Records)
			e.Ratio = float64(e.Logical+e.Metadata) / float64(max(e.Takes(), 1))
			e.Printed = fmt.Sprintf("%.2fx", math.Floor(100*e.Ratio)/100)
		} else {
			b := &w.o.Btrfs[i-len(w.o.ZFS)]
			e.Setting = b.Compression
			if b.Force {
				e.Setting += " force"
			}
			e.Margin *= float64(e.Physical) / float64(max(e.Physical+w.r.FixedSize, 1)) // the rest is known
			e.Logical += w.r.FixedSize
			e.Physical += w.r.FixedSize
			e.Ratio = float64(max(e.Logical, 1)) / float64(max(e.Physical, 1))
			e.Printed = fmt.Sprintf("%.0f%%", 100/e.Ratio)
		}
		e.Margin *= e.Ratio
		w.r.Estimates = append(w.r.Estimates, e)
	}
}

// recordsize is written as zfs does.
func recordsize(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}
