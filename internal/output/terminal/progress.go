package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// Progress shows the progress of a long command: one line that is redrawn on a terminal, or a line every few
// seconds elsewhere. Its methods are not for concurrent use.
type Progress struct {
	w        io.Writer
	terminal bool
	quiet    bool // no progress; permanent lines are printed
	drawn    int  // runes of the line on the terminal
	next     time.Time
}

const (
	plainEvery = 5 * time.Second
	barWidth   = 24 // on a terminal
)

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress {
	return &Progress{w: w, terminal: isTerminal(w), quiet: isQuiet(w), next: time.Now().Add(plainEvery)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// Show replaces the line. done is the completed share, 0 to 1.
func (p *Progress) Show(done float64, text string) {
	if p.quiet {
		return
	}
	if p.terminal {
		full := int(min(max(done, 0), 1) * barWidth)
		line := fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*done, text)
		n := utf8.RuneCountInString(line)
		fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(p.drawn-n, 0)))
		p.drawn = n
		return
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(plainEvery)
		fmt.Fprintf(p.w, "%3.0f%%  %s\n", 100*done, text)
	}
}

// Print writes a permanent line.
func (p *Progress) Print(text string) {
	p.Clear()
	fmt.Fprintln(p.w, text)
}

// Clear removes the line from a terminal.
func (p *Progress) Clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.drawn))
		p.drawn = 0
	}
}
