package bill

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Columns by their name in Parquet files and CUR 2.0; CSV files of CUR 1 write them as
// lineItem/UsageType.
const (
	colProduct = "line_item_product_code"
	colUsage   = "line_item_usage_type"
	colKind    = "line_item_line_item_type"
	colAmount  = "line_item_usage_amount"
	colCost    = "line_item_unblended_cost"
	colFrom    = "line_item_usage_start_date"
	colTo      = "line_item_usage_end_date"

	// Other columns for the product, in reports without colProduct.
	colService = "product_servicecode"
	colName    = "product_product_name" // such as Amazon ElastiCache
)

var columns = []string{colProduct, colUsage, colKind, colAmount, colCost, colFrom, colTo, colService, colName}

// maxRow limits the memory for a row of a CSV file, in bytes.
const maxRow = 4 << 20

// Read reads the report in a file. It detects the format by the file's beginning.
func Read(ctx context.Context, name string) (*Report, error) {
	return ReadBetween(ctx, name, time.Time{}, time.Time{})
}

// ReadBetween reads the usage of a period. A line that is partly within counts in proportion; one without
// dates counts whole.
func ReadBetween(ctx context.Context, name string, from, to time.Time) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a := newAdder()
	a.from, a.to = from, to
	if err := read(ctx, f, a); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r, err := a.finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func read(ctx context.Context, f *os.File, a *adder) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b := bufio.NewReaderSize(f, 64<<10)
	head, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.Equal(head, []byte("PAR1")):
		return readParquet(ctx, f, info.Size(), a)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return readCSV(ctx, z, a)
	}
	return readCSV(ctx, b, a)
}

// snake turns lineItem/UsageType into line_item_usage_type.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		switch {
		case c == '/' || c == ' ':
			b.WriteByte('_')
		case c >= 'A' && c <= 'Z':
			if i > 0 && name[i-1] != '/' && name[i-1] != '_' {
				b.WriteByte('_')
			}
			b.WriteRune(c + 'a' - 'A')
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// places returns the indexes of the columns in a header.
func places(header []string) (map[string]int, error) {
	at := make(map[string]int)
	for i, name := range header {
		name = strings.TrimPrefix(name, "\ufeff")
		if name = snake(name); at[name] == 0 {
			at[name] = i + 1
		}
	}
	for _, name := range []string{colUsage, colCost} {
		if at[name] == 0 {
			return nil, fmt.Errorf("%w: the report has no column %s", ErrFormat, name)
		}
	}
	return at, nil
}

func readCSV(ctx context.Context, from io.Reader, a *adder) error {
	limited := &rowLimit{r: from}
	r := csv.NewReader(limited)
	r.ReuseRecord, r.FieldsPerRecord = true, -1
	header, err := r.Read()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	at, err := places(header)
	if err != nil {
		return err
	}
	for line := 2; ; line++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		limited.since = 0
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		l, err := lineOf(func(name string) string {
			if i := at[name]; i > 0 && i <= len(row) {
				return row[i-1]
			}
			return ""
		})
		if err == nil {
			err = a.add(l)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

func lineOf(field func(name string) string) (l Line, err error) {
	l = Line{Product: cmp.Or(field(colProduct), field(colService), field(colName)), UsageType: field(colUsage), Kind: field(colKind)}
	if l.Cost, err = number(field(colCost)); err != nil {
		return l, err
	}
	if l.Amount, err = number(field(colAmount)); err != nil {
		return l, err
	}
	if l.From, err = moment(field(colFrom)); err != nil {
		return l, err
	}
	l.To, err = moment(field(colTo))
	return l, err
}

// moment parses 2026-11-01T00:00:00Z, and the forms of Parquet: 2026-11-01 00:00:00, or milli-, micro- or
// nanoseconds since 1970. An empty text gives the zero time.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		for ; n >= mostMillis; n /= 1000 {
		}
		return time.UnixMilli(n).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%w: %q is not a date", ErrFormat, text[:min(len(text), 40)])
}

// mostMillis is the year 5138 in milliseconds, and 1973 in microseconds.
const mostMillis = 1e14

func number(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is not a number", ErrFormat, text[:min(len(text), 40)])
	}
	return v, nil
}

// rowLimit ends a stream in which a row is too long.
type rowLimit struct {
	r     io.Reader
	since int
}

func (l *rowLimit) Read(p []byte) (int, error) {
	if l.since > maxRow {
		return 0, fmt.Errorf("%w: a row of more than %d bytes", ErrFormat, maxRow)
	}
	n, err := l.r.Read(p)
	l.since += n
	return n, err
}
