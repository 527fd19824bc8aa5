package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// ring holds the segments of one resolution, ordered by number. The last one is being written if active is
// not nil.
type ring struct {
	name       string // of its files
	every      uint64 // samples per point
	perSegment int    // points
	maxPoints  int
	maxBytes   int64
	dir        string // "": in memory
	engine     *codec.Engine

	segments []*segment
	active   *writing
}

// writing is a segment that is being written.
type writing struct {
	*segment
	handle  *os.File // nil: in memory
	block   block
	numbers map[Series]int
	values  []int64
}

const suffix = ".hist"

func (r *ring) path(number uint64) string {
	return filepath.Join(r.dir, fmt.Sprintf("%s-%08x%s", r.name, number, suffix))
}

// add appends a point. After a failed write the segment is abandoned, and the next point begins another one.
func (r *ring) add(writer writerID, index uint64, time int64, samples []Sample) error {
	var out []byte
	if r.active == nil {
		w, err := r.create()
		if err != nil {
			return err
		}
		out = w.block.appendRun(append([]byte{}, startOf(formPlain)...), writer, time, index-1)
		r.active, r.segments = w, append(r.segments, w.segment)
	}
	w := r.active
	if err := w.write(w.encode(out, index, time, samples)); err != nil {
		r.abandon()
		return err
	}
	w.note(&w.block)
	if w.points >= r.perSegment || w.size >= r.fullAt() {
		return r.finish()
	}
	return nil
}

// fullAt returns the size in bytes at which a segment is full.
func (r *ring) fullAt() int64 { return min(r.maxBytes/8, maxSegment) }

func (r *ring) bytes() (n int64) {
	for _, s := range r.segments {
		n += s.size
	}
	return n
}

// create creates the file of the next segment. Another process may use the same numbers.
func (r *ring) create() (*writing, error) {
	number := uint64(1)
	if n := len(r.segments); n > 0 {
		number = r.segments[n-1].number + 1
	}
	w := &writing{segment: &segment{number: number}, numbers: map[Series]int{}}
	if r.dir == "" {
		return w, nil
	}
	for ; ; w.number++ {
		f, err := os.OpenFile(r.path(w.number), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return nil, err
		}
		lock(f)
		w.handle, w.file = f, f.Name()
		return w, nil
	}
}

// encode appends the frames of a point, with definitions of new series. Series beyond the limit are left out.
func (w *writing) encode(dst []byte, index uint64, time int64, samples []Sample) []byte {
	for _, s := range samples {
		i, known := w.numbers[s.Series]
		if !known {
			if len(w.numbers) >= maxSeries || len(s.Name) > maxText || len(s.Gateway) > maxText || len(s.Rule) > maxText {
				continue
			}
			i = len(w.numbers)
			w.numbers[s.Series] = i
			w.values = append(w.values, 0)
			dst = w.block.appendSeries(dst, s.Series, s.Kind)
		}
		w.values[i] = s.Value
	}
	return w.block.appendPoint(dst, index, time, w.values)
}

func (w *writing) write(b []byte) error {
	if w.handle == nil {
		w.data = append(w.data, b...)
	} else if _, err := w.handle.Write(b); err != nil {
		return err
	}
	w.size += int64(len(b))
	return nil
}

// abandon ends a segment after a failed write; complete frames stay.
func (r *ring) abandon() {
	w := r.active
	r.active = nil
	_ = w.handle.Truncate(w.size)
	_ = w.handle.Close()
	if w.points == 0 {
		_ = os.Remove(w.file)
		r.segments = slices.DeleteFunc(r.segments, func(s *segment) bool { return s == w.segment })
	}
}

// finish closes the segment being written, compressed, and drops old ones.
func (r *ring) finish() error {
	w := r.active
	if w == nil {
		return nil
	}
	r.active = nil
	if w.handle != nil {
		defer w.handle.Close() // the lock lasts until the segment is compressed
	}
	all, err := w.load(r.engine)
	if err == nil {
		err = r.put(w.segment, all)
	}
	r.trim()
	return err
}

// put replaces the content of a segment by frames, compressed. A file is replaced atomically.
func (r *ring) put(s *segment, all []byte) error {
	data := packed(r.engine, all)
	if r.dir == "" {
		s.data, s.size = data, int64(len(data))
		return nil
	}
	if err := replaceFile(s.file, data); err != nil {
		return err
	}
	s.size = int64(len(data))
	return nil
}

func replaceFile(name string, data []byte) error {
	f, err := os.OpenFile(name+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// trim drops the oldest segments as long as the others hold maxPoints, or all together exceed maxBytes. It keeps
// the last segment, and segments that another process writes.
func (r *ring) trim() {
	points, size := 0, int64(0)
	for _, s := range r.segments {
		points, size = points+s.points, size+s.size
	}
	kept := r.segments[:0]
	for i, s := range r.segments {
		over := points-s.points >= r.maxPoints || size > r.maxBytes
		if !over || s.alien || i == len(r.segments)-1 {
			kept = append(kept, s)
			continue
		}
		if s.file != "" {
			_ = os.Remove(s.file)
		}
		points, size = points-s.points, size-s.size
	}
	clear(r.segments[len(kept):])
	r.segments = kept
}

// sync writes buffered data to disk.
func (r *ring) sync() error {
	if r.active == nil || r.active.handle == nil {
		return nil
	}
	return r.active.handle.Sync()
}
