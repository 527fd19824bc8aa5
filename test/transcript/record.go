package transcript

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder records the bytes between a test and its servers.
type recorder struct {
	counter
	t     testing.TB
	file  string
	lines []line
	conns map[int]int // for each server: number of connections with traffic
	ended map[int]bool
}

const mostBytes = 140 << 10 // limit of a transcript's size

func newRecorder(t testing.TB, file string) *recorder {
	return &recorder{t: t, file: file, conns: map[int]int{}, ended: map[int]bool{}}
}

// stops is called before a server is stopped. The server then closes all connections, which must not be
// recorded.
func (r *recorder) stops(server int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[server] = true
}

// serve relays a connection to the server at addr.
func (r *recorder) serve(server int, c net.Conn, network, addr string) {
	defer c.Close()
	up, err := net.Dial(network, addr)
	if err != nil {
		return
	}
	var conn string // set with the first bytes
	note := func(request bool, b []byte) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if conn == "" {
			r.conns[server]++
			conn = fmt.Sprintf("s%dc%d", server, r.conns[server])
		}
		if n := len(r.lines); n > 0 && r.lines[n-1].conn == conn && r.lines[n-1].request == request {
			r.lines[n-1].text = append(r.lines[n-1].text, b...)
			return
		}
		r.lines = append(r.lines, line{conn: conn, request: request, text: bytes.Clone(b)})
	}
	clientGone := false
	go func() {
		relay(up, c, func(b []byte) { note(true, b) })
		r.mu.Lock()
		clientGone = true
		r.mu.Unlock()
		_ = up.Close()
	}()
	relay(c, up, func(b []byte) { note(false, b) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if conn != "" && !clientGone && !r.ended[server] {
		r.lines = append(r.lines, line{conn: conn, closed: true})
	}
}

// relay records bytes before it forwards them, so that their effects are recorded after them.
func relay(to io.Writer, from io.Reader, note func([]byte)) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			note(buf[:n])
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// end writes the transcript if the test has passed.
func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.t.Failed() || r.t.Skipped() {
		return
	}
	top, _, _ := strings.Cut(r.t.Name(), "/")
	var b strings.Builder
	fmt.Fprintf(&b, "# CINCH_RECORD=1 go test -run '^%s$'\n", top)
	for _, l := range withoutRepeats(r.lines) {
		fmt.Fprintln(&b, l)
	}
	if b.Len() > mostBytes {
		r.t.Logf("no transcript is kept of %d bytes", b.Len())
		return
	}
	err := os.MkdirAll(filepath.Dir(r.file), 0o755)
	if err == nil {
		err = os.WriteFile(r.file, []byte(b.String()), 0o644)
	}
	if err != nil {
		r.t.Error(err)
	}
}

// withoutRepeats removes repeated requests of a connection that got the same answer, since how often they
// are sent depends on timing.
func withoutRepeats(lines []line) (left []line) {
	conns := map[string][]int{}
	for i, l := range lines {
		conns[l.conn] = append(conns[l.conn], i)
	}
	drop := map[int]bool{}
	same := func(i, j int) bool {
		a, b := lines[i], lines[j]
		return a.request == b.request && !a.closed && !b.closed && bytes.Equal(a.text, b.text)
	}
	for _, own := range conns {
		for k := 2; k+1 < len(own); k++ {
			if lines[own[k]].request && same(own[k-2], own[k]) && same(own[k-1], own[k+1]) && (k+2 == len(own) || lines[own[k+2]].request) {
				drop[own[k]], drop[own[k+1]] = true, true
			}
		}
	}
	for i, l := range lines {
		if !drop[i] {
			left = append(left, l)
		}
	}
	return left
}
