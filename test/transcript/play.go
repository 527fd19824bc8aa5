package transcript

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// player answers clients from a transcript.
type player struct {
	counter
	t       testing.TB
	file    string
	lines   []line
	came    []bool           // for each line: this request has been received
	conns   map[string][]int // indexes of each connection's lines
	takenBy map[string]*spoken
	failed  bool
	changed *sync.Cond // a request was received, or the test failed
	open    map[net.Conn]bool
	serving sync.WaitGroup
}

const patience = time.Minute // limit for every wait

func newPlayer(t testing.TB, file, text string) (*player, error) {
	lines, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p := &player{
		t: t, file: file, lines: lines, came: make([]bool, len(lines)),
		conns: map[string][]int{}, takenBy: map[string]*spoken{}, open: map[net.Conn]bool{},
	}
	p.changed = sync.NewCond(&p.mu)
	for i, l := range lines {
		p.conns[l.conn] = append(p.conns[l.conn], i)
	}
	return p, nil
}

func parse(text string) (lines []line, err error) {
	for i, row := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(row, "#") {
			continue
		}
		at := strings.IndexAny(row, "<>")
		if at <= 0 {
			return nil, fmt.Errorf("line %d names no connection: %.60q", i+1, row)
		}
		l := line{conn: row[:at], request: row[at] == '>', closed: row[at:] == "<"}
		if !l.closed {
			var unquoted string
			unquoted, err = strconv.Unquote(strings.TrimSpace(row[at+1:]))
			l.text = []byte(unquoted)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %.60q", i+1, err, row)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// serve plays the first connection of the transcript whose requests match those of c. If several begin the
// same, it may change to another one when more has been received.
func (p *player) serve(server int, c net.Conn) {
	p.mu.Lock()
	if p.failed {
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	p.serving.Add(1)
	p.open[c] = true
	p.mu.Unlock()
	defer p.serving.Done()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
		_ = c.Close()
	}()

	s := spoken{server: server}
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		p.mu.Lock() // others read it, since connections may swap their transcripts
		s.ahead, s.ended = append(s.ahead, buf[:n]...), err != nil
		silent := s.ended && s.conn == "" && len(s.ahead) == 0
		p.mu.Unlock()
		if silent {
			return // the client sent nothing
		}
		s.after = nil
		said, more := p.answer(&s)
		for k, i := range said {
			if !p.await(s.after[k]) || p.lines[i].closed {
				return
			}
			_, _ = c.Write(p.lines[i].text) // if the client is gone, its remaining requests still count
		}
		if !more || s.ended {
			return
		}
	}
}

// spoken is the position of a network connection in the transcript.
type spoken struct {
	server int
	conn   string // connection of the transcript; "" at first
	n      int    // number of its lines played
	ahead  []byte // received bytes behind these lines
	ended  bool
	after  []int // for each line that answer returns: all requests before this line must be received first
}

// answer consumes the complete requests that have been received, and returns the lines that answer them.
func (p *player) answer(s *spoken) (said []int, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if !p.agrees(s.conn, s) {
			if again, whole := p.repeats(s); whole {
				said = append(said, again...)
				s.after = append(s.after, again...)
				continue
			} else if again != nil {
				return said, true
			}
		}
		if !p.agrees(s.conn, s) && !p.take(s) {
			p.failLocked("%s says, behind %d lines,\n%.1000q (ended: %v)\nand no connection in the transcript does", s.conn, s.n, s.ahead, s.ended)
			return nil, false
		}
		lines := p.conns[s.conn]
		if s.n == len(lines) {
			return said, true
		}
		i := lines[s.n]
		switch l := p.lines[i]; {
		case !l.request:
			said = append(said, i)
			s.after = append(s.after, p.first(s.conn, s.n))
		case len(s.ahead) < len(l.text):
			return said, true
		default:
			s.ahead = s.ahead[len(l.text):]
			p.came[i] = true
			p.changed.Broadcast()
		}
		s.n++
	}
}

// agrees reports whether s may continue as conn of the transcript.
func (p *player) agrees(conn string, s *spoken) bool {
	lines := p.conns[conn]
	switch {
	case conn == "" || s.n > len(lines):
		return false
	case s.n == len(lines):
		return len(s.ahead) == 0
	}
	l := p.lines[lines[s.n]]
	n := min(len(s.ahead), len(l.text))
	return !l.request || bytes.Equal(s.ahead[:n], l.text[:n]) && (n == len(l.text) || !s.ended)
}

// repeats returns the reply to the last request if the next request is the same, or may become the same.
// Polling repeats a request until the answer changes. How often depends on timing, so transcripts hold it
// once.
func (p *player) repeats(s *spoken) (again []int, whole bool) {
	lines := p.conns[s.conn]
	k := s.n - 1
	for k > 0 && !p.lines[lines[k]].request {
		k--
	}
	if k < 0 || k == s.n-1 || len(s.ahead) == 0 {
		return nil, false
	}
	last := p.lines[lines[k]].text
	if n := min(len(last), len(s.ahead)); !bytes.Equal(last[:n], s.ahead[:n]) || n < len(last) && s.ended {
		return nil, false
	}
	if len(s.ahead) < len(last) {
		return lines[k+1 : s.n], false
	}
	s.ahead = s.ahead[len(last):]
	return lines[k+1 : s.n], true
}

// take gives s a connection of the transcript whose requests equal those of s so far. If another network
// connection has it and could continue with that of s, the two swap.
func (p *player) take(s *spoken) bool {
	has := p.conns[s.conn]
	for _, l := range p.lines {
		other := p.takenBy[l.conn]
		if other == s || !strings.HasPrefix(l.conn, fmt.Sprintf("s%dc", s.server)) || !p.agrees(l.conn, s) || !p.alike(has, p.conns[l.conn], s.n) {
			continue
		}
		if other != nil && (s.conn == "" || !p.agrees(s.conn, other) || !p.alike(has, p.conns[l.conn], other.n)) {
			continue
		}
		for k := range s.n {
			mine, others := has[k], p.conns[l.conn][k]
			p.came[mine], p.came[others] = p.came[others], p.came[mine]
		}
		if p.takenBy[s.conn] = other; other != nil {
			other.conn = s.conn
		}
		p.takenBy[l.conn], s.conn = s, l.conn
		return true
	}
	return false
}

// alike reports whether the first n lines of two connections hold the same requests. Replies may differ,
// such as a client's number.
func (p *player) alike(a, b []int, n int) bool {
	return len(a) >= n && len(b) >= n && slices.EqualFunc(a[:n], b[:n], func(a, b int) bool {
		x, y := p.lines[a], p.lines[b]
		return x.request == y.request && (!x.request || bytes.Equal(x.text, y.text))
	})
}

// first returns the earliest line of the transcript that is the nth of conn or of another connection that
// begins the same, since they may have been swapped.
func (p *player) first(conn string, n int) int {
	server, _, _ := strings.Cut(conn, "c")
	first := p.conns[conn][n]
	for other, lines := range p.conns {
		if strings.HasPrefix(other, server+"c") && p.alike(lines, p.conns[conn], n+1) {
			first = min(first, lines[n])
		}
	}
	return first
}

// await waits until all requests before line i have been received.
func (p *player) await(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	timer := time.AfterFunc(patience, func() {
		p.fail("%s waits for another connection", p.lines[i].conn)
	})
	defer timer.Stop()
	for !p.failed && p.missing(i) >= 0 {
		p.changed.Wait()
	}
	return !p.failed
}

// missing returns the first of n lines that is a request not yet received, or -1.
func (p *player) missing(n int) int {
	for i, l := range p.lines[:n] {
		if l.request && !p.came[i] {
			return i
		}
	}
	return -1
}

func (p *player) fail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failLocked(format, args...)
}

func (p *player) failLocked(format string, args ...any) {
	if !p.failed {
		p.t.Errorf("%s: %s\nRecord it again if that is meant: CINCH_RECORD=1 go test -run '^%s$'", p.file, fmt.Sprintf(format, args...), p.t.Name())
	}
	p.failed = true
	p.changed.Broadcast()
	for c := range p.open {
		_ = c.Close()
	}
}

// end waits for the connections, which the test has closed, and fails the test unless all requests have
// been received.
func (p *player) end() {
	p.mu.Lock()
	for c := range p.open {
		_ = c.SetReadDeadline(time.Now().Add(patience))
	}
	p.mu.Unlock()
	p.serving.Wait()
	if i := p.missing(len(p.lines)); i >= 0 && !p.failed && !p.t.Skipped() {
		p.fail("nothing has said %s", p.lines[i])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true // later connections are closed at once
}
