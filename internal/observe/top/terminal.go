package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Control sequences of the terminal (ECMA-48, and xterm's private modes).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b]2;cinch top\a" // the alternate screen, without a cursor, with a title
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	topLeft     = "\x1b[H"
	clearLine   = "\x1b[K" // from the cursor
	clearBelow  = "\x1b[J" // likewise, and the lines below
)

// Run shows the pages on a terminal until the user quits or ctx ends. in and out are the terminal.
func Run(ctx context.Context, pages []Page, every time.Duration, colours bool, in, out *os.File) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("top: %w", err)
	}
	defer func() {
		_, _ = io.WriteString(out, leaveScreen)
		_ = term.Restore(int(in.Fd()), before)
	}()
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan string)
	go readKeys(ctx, in, keys)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	s := &screen{every: every, pages: len(pages), at: time.Now(), colours: colours}
	watch, polled, next := NewWatch(pages), make(chan poll, 1), time.NewTimer(0)
	polling := false
	for {
		s.width, s.height, _ = term.GetSize(int(out.Fd())) // without a size everything is shown
		if _, err := io.WriteString(out, frame(s.text())); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // interrupted: users may quit with Ctrl-C
		case <-resized:
		case key, open := <-keys:
			if !open || s.press(key) {
				return nil
			}
			if s.paused {
				next.Stop()
			} else if key == "p" || key == " " {
				next.Reset(0)
			}
		case <-next.C:
			if !polling && !s.paused {
				polling = true
				go func() { polled <- watch.poll(ctx, every) }()
			}
		case p := <-polled:
			polling = false
			if s.paused {
				break
			}
			s.first, s.at = p.first, p.at
			s.arrange(p.list)
			pause := every
			if p.first {
				pause = min(pause, time.Second) // averages since the start are not rates
			}
			next.Reset(pause)
		}
	}
}

// frame returns the output that replaces the content of the screen by a text. Each line is cleared before it is
// written, not after it: after a line as wide as the terminal the cursor is on its last character, which clearing
// would erase.
func frame(text string) string {
	last := strings.LastIndexByte(text, '\n') + 1
	return topLeft + clearLine + strings.ReplaceAll(text[:last], "\n", "\r\n"+clearLine) + clearBelow + text[last:]
}

// press carries out a key, and reports whether it ends the program.
func (s *screen) press(key string) (quit bool) {
	switch key {
	case "q", "\x03", "\x04": // Ctrl-C, Ctrl-D
		return true
	case "\x1b[B", "\x1bOB", "j": // down
		s.selected = min(s.selected+1, max(len(s.gateways)-1, 0))
	case "\x1b[A", "\x1bOA", "k": // up
		s.selected = max(s.selected-1, 0)
	case "s":
		s.order = (s.order + 1) % orders
		s.arrange(s.gateways)
	case "?", "h":
		s.help = !s.help
	case "p", " ":
		s.paused = !s.paused
	}
	return false
}

// readKeys sends the keys that are pressed, and closes the channel at the end of the input. A terminal delivers the
// sequence of a special key in one piece.
func readKeys(ctx context.Context, in io.Reader, keys chan<- string) {
	defer close(keys)
	b := make([]byte, 64)
	for {
		n, err := in.Read(b)
		for rest := string(b[:n]); rest != ""; {
			key := nextKey(rest)
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
			rest = rest[len(key):]
		}
		if err != nil {
			return
		}
	}
}

// nextKey returns the first key in what a terminal has sent: a byte, or an escape sequence (ESC [ … final byte,
// or ESC O and one byte).
func nextKey(text string) string {
	if len(text) < 3 || text[0] != '\x1b' || text[1] != '[' && text[1] != 'O' {
		return text[:1]
	}
	end := 2
	for text[1] == '[' && end < len(text)-1 && (text[end] < 0x40 || text[end] > 0x7e) {
		end++
	}
	return text[:end+1]
}
