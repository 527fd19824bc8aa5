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

// IsTerminal reports that somebody may sit at the other end of a file.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
