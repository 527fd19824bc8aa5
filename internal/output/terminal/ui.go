// Package terminal prints text on a terminal: errors with a hint, and tables. Results go to standard output and
// everything else to standard error; the callers choose.
package terminal

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// hinted adds advice to an error. Packages below the command line do not give hints; they return errors that
// callers can tell apart. Packages of stores are the exception: only they know what helps. See internal/store.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// Hint returns the hint for [PrintError].
func (h *hinted) Hint() string { return h.hint }

// WithHint returns err with a line of advice. The hint is lower case and without a full stop. A nil error
// stays nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// PrintError writes "cinch: …", one line for each line of the error, and the outermost hint in the error's
// chain. Servers may have written a part of it.
func PrintError(w io.Writer, err error) {
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		fmt.Fprintf(w, "cinch: %s\n", Plain(line))
	}
	if hint := Hint(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// Hint returns the outermost hint in an error's chain, or "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Table writes rows in aligned columns under a header in upper case.
func Table(w io.Writer, header []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(header, "\t")))
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				_, _ = io.WriteString(t, "\t")
			}
			_, _ = io.WriteString(t, Plain(cell))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// Plain replaces characters that a terminal must not get: control characters, which move the cursor and
// worse, and those that change the direction of text. Names and errors from other systems may contain any.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// Nearest returns the candidate that word may be a typing mistake of, or "" if none is close.
func Nearest(word string, candidates []string) string {
	best, distance := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := editDistance(word, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, changes and swaps of neighbours
// (optimal string alignment), on bytes.
func editDistance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			change := prev[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			cur[j] = min(change, prev[j]+1, cur[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
