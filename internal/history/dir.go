package history

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// asideSuffix ends the names of files that could not be read. So many are kept for somebody to look at.
	asideSuffix = ".unreadable"
	maxAside    = 4
)

// find takes in the files of other processes, and of those before: all that are new, or may have grown.
func (r *ring) find(log *slog.Logger) {
	if r.dir == "" {
		return
	}
	names, err := filepath.Glob(filepath.Join(r.dir, r.name+"-*"+suffix))
	if err != nil {
		return
	}
	known := map[string]*segment{}
	for _, s := range r.segments {
		known[s.file] = s
	}
	var all []*segment
	for _, name := range names {
		s := known[name]
		if s == nil || s.alien {
			s = r.open(name, log)
		}
		if s != nil {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	r.segments = all
}

// open reads what a file holds. One that can't be read is set aside.
func (r *ring) open(name string, log *slog.Logger) *segment {
	digits := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), r.name+"-"), suffix)
	number, err := strconv.ParseUint(digits, 16, 32)
	if err != nil {
		return nil
	}
	s := &segment{number: number, file: name}
	if s.alien, s.size, err = look(name); err != nil {
		return nil // it is gone, or not ours
	}
	all, err := s.load(r.engine)
	if err == nil {
		s.scan(all)
	}
	switch {
	case errors.Is(err, errUnreadable) && !s.alien:
		r.setAside(name, log, err)
		return nil
	case err != nil:
		return nil
	}
	return s
}

func look(name string) (alien bool, size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, 0, err
	}
	// One that is empty may have been made this moment, and be locked the next.
	young := info.Size() == 0 && time.Since(info.ModTime()).Abs() < time.Minute
	return young || locked(f), info.Size(), nil
}

func (r *ring) setAside(name string, log *slog.Logger, why error) {
	log.Warn("history: a file can't be read and is set aside", "file", name, "err", why)
	_ = os.Rename(name, name+asideSuffix)
	old, err := filepath.Glob(filepath.Join(r.dir, r.name+"-*"+asideSuffix))
	if err != nil {
		return
	}
	slices.Sort(old)
	for len(old) > maxAside {
		_ = os.Remove(old[0])
		old = old[1:]
	}
}

// tidy merges what crashes and restarts have left: neighbours that are small become one file, compressed. It is done at the start,
// before anything is written here.
func (r *ring) tidy(log *slog.Logger) {
	var kept, group []*segment
	points, raw := 0, int64(0)
	flush := func() {
		kept = append(kept, r.merge(group, log)...)
		group, points, raw = nil, 0, 0
	}
	for _, s := range r.segments {
		if s.alien || s.points >= r.perSegment {
			flush()
			kept = append(kept, s)
			continue
		}
		if points+s.points > r.perSegment || raw+s.raw > maxSegment {
			flush()
		}
		group, points, raw = append(group, s), points+s.points, raw+s.raw
	}
	flush()
	r.segments = kept
}

// merge puts segments into the last of them, and removes the others. If it fails they stay as they are.
func (r *ring) merge(group []*segment, log *slog.Logger) []*segment {
	if len(group) == 0 || len(group) == 1 && group[0].packed {
		return group
	}
	var all []byte
	for _, s := range group {
		part, err := s.load(r.engine)
		if err != nil {
			return group
		}
		good := readFrames(part, nil)
		if good < len(part) {
			log.Info("history: the end of a file was not whole", "file", s.file, "bytes", len(part)-good)
		}
		all = append(all, part[:good]...)
	}
	last := group[len(group)-1]
	if len(all) > maxSegment {
		return group
	}
	if len(all) == 0 {
		for _, s := range group {
			_ = os.Remove(s.file)
		}
		return nil
	}
	if err := r.put(last, all); err != nil {
		log.Warn("history: files can't be merged", "err", err)
		return group
	}
	last.scan(all)
	for _, s := range group[:len(group)-1] {
		_ = os.Remove(s.file)
	}
	return []*segment{last}
}

// errNotDirectory is returned for a path that is something else.
var errNotDirectory = errors.New("not a directory")

// leftAfter is how old a file is that nobody is writing any more. A younger one may be that of a process which this one replaces.
const leftAfter = time.Minute

// prepare makes the directory, and tries whether files can be made there.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return errors.Join(err, fmt.Errorf("%s: %w", dir, errNotDirectory))
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"+suffix+".tmp"))
	for _, name := range left {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > leftAfter {
			_ = os.Remove(name)
		}
	}
	f, err := os.CreateTemp(dir, "try-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
