//go:build !noparquet

package bill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// readParquet reads the columns that are needed. The library panics on some damaged files, which the caller
// gets as an error.
func readParquet(ctx context.Context, f *os.File, size int64, a *adder) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: damaged: %v", ErrFormat, r)
		}
	}()
	file, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	group := parquet.Group{}
	for _, name := range columns {
		if leaf, ok := file.Schema().Lookup(name); ok {
			group[name] = leaf.Node
		}
	}
	for _, name := range []string{colUsage, colCost} {
		if group[name] == nil {
			return fmt.Errorf("%w: the report has no column %s", ErrFormat, name)
		}
	}
	schema := parquet.NewSchema("bill", group)
	names := make([]string, 0, len(group))
	for _, path := range schema.Columns() {
		names = append(names, path[0])
	}
	r := parquet.NewReader(file, schema)
	defer r.Close()
	rows := make([]parquet.Row, 256)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.ReadRows(rows)
		for _, row := range rows[:n] {
			if err := a.addRow(row, names); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
}

func (a *adder) addRow(row parquet.Row, names []string) error {
	fields := make(map[string]string, len(names))
	for _, v := range row {
		if i := v.Column(); !v.IsNull() && i >= 0 && i < len(names) {
			fields[names[i]] = v.String()
		}
	}
	l, err := lineOf(func(name string) string { return fields[name] })
	if err != nil {
		return err
	}
	return a.add(l)
}
