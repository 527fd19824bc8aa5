package plan

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path"
	"strings"
)

// stretchBytes is the size of one contiguous read of a file of lines that is not read whole.
const stretchBytes = 1 << 20

// lines reads one document per line: all of a short file, evenly spread stretches of a long one.
func (f *files) lines(h *os.File, s sized, want int64) error {
	if want >= s.size {
		n, err := f.stretch(io.LimitReader(h, s.size), s, 1)
		f.read += n
		return err
	}
	stretches := max(want/stretchBytes, 1)
	for i := range stretches {
		at := i * (s.size / stretches)
		// A stretch begins with the line after the offset, so that long lines are no likelier than others.
		r := bufio.NewReaderSize(io.NewSectionReader(h, at, min(stretchBytes, s.size-at)), 64<<10)
		if at > 0 {
			if _, err := skipLine(r); err != nil {
				continue
			}
		}
		weight := float64(s.size) / float64(stretches*stretchBytes)
		n, err := f.stretch(r, s, weight)
		f.read += n
		if err != nil {
			return err
		}
	}
	return nil
}

// skipLine reads to the end of a line of any length, and keeps nothing.
func skipLine(r *bufio.Reader) (n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// stretch reads the lines of r. It uses the last one only if it is complete or ends with the file.
func (f *files) stretch(from io.Reader, s sized, weight float64) (read int64, err error) {
	r, ok := from.(*bufio.Reader)
	if !ok {
		r = bufio.NewReaderSize(from, 64<<10)
	}
	var line []byte
	for {
		if err := f.ctx.Err(); err != nil {
			return read, err
		}
		var n int64
		line, n, err = readLine(r, line[:0], f.o.MaxValue)
		read += n
		whole := err == nil || weight == 1 && errors.Is(err, io.EOF)
		if doc := bytes.TrimSpace(line); whole && len(doc) > 0 {
			f.document(s, doc, weight)
		} else if n > int64(f.o.MaxValue) {
			f.c.SkipInGroup(s.shown, kindDocument, "too long", weight)
		}
		if errors.Is(err, io.EOF) {
			return read, nil
		}
		if err != nil {
			return read, err
		}
	}
}

// readLine appends a line to buf. A line longer than most bytes is read and dropped, and returned empty.
func readLine(r *bufio.Reader, buf []byte, most int) (line []byte, n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		if n <= int64(most) {
			buf = append(buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if n > int64(most) {
			buf = buf[:0]
		}
		return buf, n, err
	}
}

func (f *files) document(s sized, doc []byte, weight float64) {
	name := nameOfFile(s.shown)
	if shape := f.shapes.of(doc); shape != "" {
		name += " " + shape
	}
	f.c.Add(name, kindDocument, doc, weight)
}

// json reads the elements of a file's top-level list, or else its consecutive values.
func (f *files) json(h *os.File, s sized, want int64) error {
	weight := 1.0
	if want < s.size {
		weight, f.single = float64(s.size)/float64(max(want, 1)), true
	}
	sp := splitter{
		most: f.o.MaxValue, emit: func(doc []byte) { f.document(s, doc, weight) },
		long: func() { f.c.SkipInGroup(s.shown, kindDocument, "too long", weight) },
	}
	buf := make([]byte, 64<<10)
	for left := want; left > 0; {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		n, err := h.Read(buf[:min(int64(len(buf)), left)])
		sp.write(buf[:n])
		left, f.read = left-int64(n), f.read+int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if sp.finish(); sp.cut && want >= s.size {
		f.c.SkipInGroup(s.shown, kindDocument, "cut off by the end of the file", weight)
	}
	return nil
}

// splitter finds the values in a stream of JSON: those in a top-level list, or those at the top level. It
// checks only brackets and quotes, and holds one value at a time.
//
//	[ {"a":1} , {"a":2} ]     two
//	{"a":1} {"a":2}           two
type splitter struct {
	most int
	emit func(doc []byte)
	long func()

	buf      []byte
	depth    int // of brackets, without that of the top-level list
	list     bool
	began    bool // something other than space has been read
	quoted   bool
	escaped  bool
	overlong bool
	cut      bool // the stream ended within a value
}

func (s *splitter) write(p []byte) {
	for _, c := range p {
		s.byte(c)
	}
}

func (s *splitter) byte(c byte) {
	if s.quoted {
		s.keep(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.quoted = false
		}
		return
	}
	space := c == ' ' || c == '\n' || c == '\r' || c == '\t'
	switch {
	case s.depth == 0 && (space || c == ',' && s.list):
		s.end()
		return
	case c == '[' && !s.began:
		s.began, s.list = true, true
		return
	case s.depth == 0 && c == ']':
		s.end()
		return
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		s.depth--
	case c == '"':
		s.quoted = true
	}
	s.began = s.began || !space
	s.keep(c)
	if s.depth <= 0 && (c == '}' || c == ']') {
		s.depth = 0
		s.end()
	}
}

func (s *splitter) keep(c byte) {
	if s.overlong = s.overlong || len(s.buf) >= s.most; s.overlong {
		s.buf = s.buf[:0]
		return
	}
	s.buf = append(s.buf, c)
}

// end emits the collected value, if it is complete.
func (s *splitter) end() {
	if s.overlong {
		s.long()
	} else if len(s.buf) > 0 && s.depth == 0 && !s.quoted {
		s.emit(s.buf)
	}
	s.buf, s.overlong = s.buf[:0], false
}

// finish ends the stream.
func (s *splitter) finish() {
	s.cut = !s.overlong && len(s.buf) > 0 && (s.depth != 0 || s.quoted)
	s.end()
}

// maxColumns limits the groups of a file.
const maxColumns = 64

// csv reads the values of each column. The first row names the columns.
func (f *files) csv(h *os.File, s sized, want int64) error {
	weight := 1.0
	if want < s.size {
		weight, f.single = float64(s.size)/float64(max(want, 1)), true
	}
	limited := &bounded{r: io.LimitReader(h, want), most: f.o.MaxValue}
	r := csv.NewReader(limited)
	r.ReuseRecord, r.FieldsPerRecord, r.LazyQuotes = true, -1, true
	if strings.EqualFold(path.Ext(s.name), ".tsv") {
		r.Comma = '\t'
	}
	var names []string
	pattern := nameOfFile(s.shown)
	defer func() { f.read += limited.read }()
	for {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		limited.since = 0
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errLongRow) {
			f.c.SkipInGroup(pattern, kindColumn, "rows after one that is too long", 1)
			return nil
		}
		if err != nil {
			f.c.SkipInGroup(pattern, kindColumn, "not a row", weight)
			continue
		}
		if names == nil {
			for _, n := range row {
				names = append(names, clip(n, maxKeyLength))
			}
			continue
		}
		for i, v := range row {
			if i < len(names) && i < maxColumns {
				f.c.Add(pattern+" "+names[i], kindColumn, []byte(v), weight)
			}
		}
	}
}

// bounded ends a stream in which no row ends within most bytes: otherwise a quote that is never closed would
// read the rest of the file into memory.
type bounded struct {
	r           io.Reader
	most, since int
	read        int64
}

var errLongRow = errors.New("a row is too long")

func (b *bounded) Read(p []byte) (int, error) {
	if b.since > b.most {
		return 0, errLongRow
	}
	n, err := b.r.Read(p)
	b.since += n
	b.read += int64(n)
	return n, err
}
