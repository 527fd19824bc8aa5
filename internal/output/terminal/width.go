package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// DefaultWidth is the width of anything but a terminal.
const DefaultWidth = 80

// Width returns the number of columns of a terminal, or DefaultWidth if w is no terminal or a very narrow one.
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

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
