package terminal

import (
	"fmt"
	"io"
)

// quiet is a writer for warnings and errors that gets neither progress nor notes.
type quiet struct{ io.Writer }

// Quiet returns a writer that Progress and Note do not write to.
func Quiet(w io.Writer) io.Writer { return quiet{w} }

func isQuiet(w io.Writer) bool {
	_, is := w.(quiet)
	return is
}

// Note writes information that is not essential.
func Note(w io.Writer, format string, args ...any) {
	if !isQuiet(w) {
		fmt.Fprintf(w, format, args...)
	}
}
