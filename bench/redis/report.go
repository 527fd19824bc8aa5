package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// table is a table in Markdown.
type table struct{ strings.Builder }

func (t *table) row(cells ...string) {
	fmt.Fprintf(t, "| %s |\n", strings.Join(cells, " | "))
}

func (t *table) rule(columns int) {
	t.row(strings.Split(strings.Repeat("--- ", columns-1)+"---", " ")...)
}

// report replaces what stands between the two markers of a part in redis.md; everything
// else there is written by hand.
func (o *options) report(part, text string) error {
	path := filepath.Join(o.results, "redis.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin "+part+" -->\n", "<!-- end "+part+" -->"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no markers of %s", path, part)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
