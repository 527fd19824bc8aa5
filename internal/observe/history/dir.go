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
	// asideSuffix ends the names of files that could not be read. maxAside of them are kept for inspection.
	asideSuffix = ".unreadable"
	maxAside    = 4
)

// find adds the files of other and earlier processes: all that are new, or may have grown.
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

// open reads a file. One that can't be read is set aside.
func (r *ring) open(name string, log *slog.Logger) *segment {
	digits := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), r.name+"-"), suffix)
	number, err := strconv.ParseUint(digits, 16, 32)
	if err != nil {
		return nil
	}
	s := &segment{number: number, file: name}
	if s.alien, s.size, err = look(name); err != nil {
		return nil // removed, or not a history file
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
	// An empty file may have just been created, and be locked in a moment.
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

// tidy merges the leftovers of crashes and restarts: small neighbouring segments become one compressed file.
// It runs at the start, before this process writes anything.
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

// merge merges segments into the last of them, and removes the others. If it fails they stay unchanged.
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
			log.Info("history: file truncated", "file", s.file, "bytes", len(part)-good)
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

// errNotDirectory reports a path that is not a directory.
var errNotDirectory = errors.New("not a directory")

// leftAfter is the age from which a file counts as abandoned. A younger one may belong to a process which
// this one replaces.
const leftAfter = time.Minute

// prepare makes the directory, and checks whether files can be created there.
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
