package rig

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Table builds a Markdown table.
type Table struct{ strings.Builder }

// Row adds a row of cells.
func (t *Table) Row(cells ...string) {
	fmt.Fprintf(t, "| %s |\n", strings.Join(cells, " | "))
}

// Rule adds the line below the column heads.
func (t *Table) Rule(columns int) {
	t.Row(strings.Split(strings.Repeat("--- ", columns-1)+"---", " ")...)
}

// ReplacePart replaces the text between the two markers of a part in a file of results; everything else there
// is written by hand.
func ReplacePart(path, part, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no markers for %s", path, part)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}

// WriteCSV writes rows to a file, replacing it.
func WriteCSV(path string, rows [][]string) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// ReadCSV returns the rows of a file, or none if it does not exist.
func ReadCSV(path string) ([][]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return csv.NewReader(bytes.NewReader(text)).ReadAll()
}
