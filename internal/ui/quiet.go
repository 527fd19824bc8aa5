package ui

import (
	"fmt"
	"io"
)

// quiet is a writer that warnings and errors are written to, and no progress and no notes.
type quiet struct{ io.Writer }

// Quiet makes a writer one that neither Progress nor Note writes to.
func Quiet(w io.Writer) io.Writer { return quiet{w} }

func isQuiet(w io.Writer) bool {
	_, is := w.(quiet)
	return is
}

// Note writes what nobody has to know.
func Note(w io.Writer, format string, args ...any) {
	if !isQuiet(w) {
		fmt.Fprintf(w, format, args...)
	}
}
