package ui

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// DefaultWidth is that of what is no terminal.
const DefaultWidth = 80

// Width is how many columns a terminal has.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return DefaultWidth
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col < 40 {
		return DefaultWidth
	}
	return int(size.Col)
}
