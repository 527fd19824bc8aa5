package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FileOptions limits what is read of files.
type FileOptions struct {
	MaxBytes  int64 // read in total; 0: 1 GiB
	MaxValue  int   // longer documents are skipped; 0: 32 MiB
	BlockSize int   // for files without documents; 0: 64 KiB
	Progress  func(done float64, what string)
}

func (o *FileOptions) setDefaults() {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxValue <= 0 {
		o.MaxValue = 32 << 20
	}
	if o.BlockSize <= 0 {
		o.BlockSize = 64 << 10
	}
}

// wholeFile is the length in bytes up to which a file is one value.
const wholeFile = 1 << 20

// Files collects the values in files and directories:
//
//	.jsonl .ndjson       a document per line, grouped by their keys
//	.json                a document, or those in a list
//	.csv .tsv            the values of each column
//	others               the file, or blocks of it if it is longer than a megabyte
//
// If there is more than MaxBytes, the same share of every file is read, spread over the file if its format
// allows that.
func Files(ctx context.Context, c *Collector, paths []string, o FileOptions) (SourceInfo, error) {
	o.setDefaults()
	f := &files{ctx: ctx, c: c, o: o}
	info := SourceInfo{Name: strings.Join(paths, ", ")}
	if err := f.list(paths); err != nil {
		return info, err
	}
	for _, p := range f.paths {
		if err := f.file(p); err != nil {
			return info, err
		}
	}
	info.Bytes, info.Whole = f.total, f.read >= f.total
	if f.unread > 0 {
		info.Notes = append(info.Notes, fmt.Sprintf("%d files could not be read and are not in the plan", f.unread))
	}
	if f.single {
		info.Notes = append(info.Notes, "only the beginning of long .json and .csv files was read")
	}
	return info, nil
}

type files struct {
	ctx    context.Context
	c      *Collector
	o      FileOptions
	paths  []sized
	total  int64
	read   int64
	passed int64
	unread int
	single bool // only the beginning of some file was read
	shapes shapes
}

type sized struct {
	name, shown string
	size        int64
}

// maxFiles limits the list of files.
const maxFiles = 1 << 20

var errFiles = errors.New("too many files")

func (f *files) list(paths []string) error {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			f.add(p, filepath.Base(p), info.Size())
			continue
		}
		err = filepath.WalkDir(p, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				f.unread++ // a directory's contents; continue with the others
				return nil
			}
			if !e.Type().IsRegular() {
				return f.ctx.Err()
			}
			info, err := e.Info()
			if err != nil {
				f.unread++
				return nil
			}
			shown, _ := filepath.Rel(p, name)
			if len(f.paths) >= maxFiles {
				return fmt.Errorf("%w: more than %d below %s", errFiles, maxFiles, p)
			}
			f.add(name, filepath.ToSlash(shown), info.Size())
			return f.ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *files) add(name, shown string, size int64) {
	if size > 0 {
		f.paths = append(f.paths, sized{name, shown, size})
		f.total += size
	}
}

// share returns the share of each file to read.
func (f *files) share() float64 { return min(1, float64(f.o.MaxBytes)/float64(max(f.total, 1))) }

func (f *files) file(s sized) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	if f.o.Progress != nil {
		f.o.Progress(float64(f.read)/float64(max(f.total, 1)), s.shown)
	}
	h, err := os.Open(s.name)
	if err != nil {
		f.unread++
		return nil
	}
	defer h.Close()
	if err = f.content(h, s); err != nil && f.ctx.Err() == nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return f.ctx.Err()
}

func (f *files) content(h *os.File, s sized) error {
	want := int64(f.share() * float64(s.size))
	switch strings.ToLower(filepath.Ext(s.name)) {
	case ".jsonl", ".ndjson":
		return f.lines(h, s, want)
	case ".json":
		return f.json(h, s, want)
	case ".csv", ".tsv":
		return f.csv(h, s, want)
	}
	if s.size <= wholeFile {
		return f.small(h, s)
	}
	return f.blocks(h, s, want)
}

// small adds a file as one value. The collector decides which of them are read.
func (f *files) small(h *os.File, s sized) error {
	t := f.c.Offer("", []byte(s.shown))
	if !t.Read {
		f.passed += s.size // represented by others
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(h, wholeFile))
	if err != nil {
		return err
	}
	f.read += int64(len(b))
	f.c.Value("", []byte(s.shown), kindFile, t, b)
	return nil
}

// blocks adds blocks spread evenly over the file.
func (f *files) blocks(h *os.File, s sized, want int64) error {
	size := int64(f.o.BlockSize)
	all := (s.size + size - 1) / size
	some := min(max(want/size, 1), all)
	buf := make([]byte, size)
	pattern := nameOfFile(s.shown)
	for i := range some {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		at := i * all / some * size
		n, err := h.ReadAt(buf, at)
		if n > 0 {
			f.c.Add(pattern, kindBlock, buf[:n], float64(all)/float64(some))
			f.read += int64(n)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// nameOfFile returns a file's name with stars for its variable parts.
func nameOfFile(shown string) string {
	tokens := cut([]byte(shown))
	for i, tok := range tokens {
		if hasDigits(tok) {
			tokens[i] = variable
		}
	}
	return strings.Join(tidy(tokens), "")
}
