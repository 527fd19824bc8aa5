package terminal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPrintError(t *testing.T) {
	base := errors.New("line one\nline two\n")
	var b strings.Builder
	PrintError(&b, fmt.Errorf("serve: %w", WithHint(WithHint(base, "inner"), "do %s", "this")))
	if want := "cinch: serve: line one\ncinch: line two\nhint: do this\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
	if !errors.Is(WithHint(base, "x"), base) || WithHint(nil, "x") != nil {
		t.Error("WithHint loses the error")
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, []string{"name", "bytes"}, [][]string{{"orders", "32768"}, {"a", "1"}}); err != nil {
		t.Fatal(err)
	}
	if want := "NAME    BYTES\norders  32768\na       1\n"; b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

func TestNearest(t *testing.T) {
	words := []string{"min_size", "max_size", "setting", "key", "db"}
	for word, want := range map[string]string{
		"minsize": "min_size", "settings": "setting", "kye": "key", "keys": "key",
		"compression": "", "x": "", "mx_size": "max_size", "bd": "db",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// A quiet writer gets warnings and permanent lines, but neither progress nor notes.
func TestQuiet(t *testing.T) {
	var b strings.Builder
	w := Quiet(&b)
	p := NewProgress(w)
	p.next = time.Time{}
	p.Show(0.5, "half")
	Note(w, "wrote it\n")
	p.Print("skipped: a")
	if b.String() != "skipped: a\n" {
		t.Errorf("%q", b.String())
	}
	Note(&b, "wrote %s\n", "it")
	if b.String() != "skipped: a\nwrote it\n" {
		t.Errorf("%q", b.String())
	}
}

// Text from servers and pages does not move the cursor.
func TestPlain(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, []string{"rule", "ratio"}, [][]string{{"a\x1b[2Jb\tc", "\u202e2.0"}, {"\xff\u009b1A", "é"}}); err != nil {
		t.Fatal(err)
	}
	PrintError(&b, errors.New("it answers 500 \x1b]0;title\a\rno"))
	if text := b.String(); strings.ContainsAny(text, "\x1b\a\r\u009b\u202e\t") || !strings.Contains(text, "é\n") || !strings.Contains(text, "a [2Jb c") {
		t.Errorf("%q", text)
	}
}
