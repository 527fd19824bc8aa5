package http

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// script is an upstream that reads the head of each request on a connection and calls answer, which writes
// the reply. If answer returns false the connection is closed.
func script(t testing.TB, answer func(c net.Conn, r *http.Request) bool) (addr string) {
	t.Helper()
	l := listen(t)
	testenv.AcceptEach(t, l, func(c net.Conn) {
		defer c.Close()
		b := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(b)
			if err != nil || !answer(c, r) {
				return
			}
		}
	})
	return l.Addr().String()
}

// says is an upstream that reads each request and then answers with the same bytes.
func says(t testing.TB, answer string) (addr string) {
	return script(t, func(c net.Conn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		_, err := io.WriteString(c, answer)
		return err == nil && !strings.Contains(answer, "Connection: close")
	})
}

// ways returns the addresses of an upstream itself and of a gateway in front of it for each mode.
func ways(t testing.TB, upstream string) map[string]string {
	all := map[string]string{"direct": upstream}
	for _, m := range modes {
		all[m.name] = m.start(t, upstream)
	}
	return all
}

// ask sends bytes on a new connection and returns the reply with header lines sorted, without Date and
// Connection. The result includes all 1xx replies, and whatever follows the last reply. If raw is whole
// requests and the connection stays open, ask finds the end of the reply by sending another request.
func ask(t testing.TB, addr, raw string, whole bool) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, raw)
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	var answer bytes.Buffer
	r := bufio.NewReader(io.TeeReader(c, &answer))
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode < 200 {
			continue
		}
		if !whole {
			break
		}
		if err != nil || resp.Close {
			_, _ = io.Copy(io.Discard, r)
			break
		}
		end := answer.Len() - r.Buffered()
		_, _ = io.WriteString(c, get)
		if _, err = http.ReadResponse(r, nil); err == nil {
			answer.Truncate(end)
		}
		break
	}
	return normal(answer.String())
}

func normal(answer string) string {
	heads := strings.Split(answer, "\r\n\r\n")
	for i, head := range heads {
		if lines := strings.Split(head, "\r\n"); strings.HasPrefix(head, "HTTP/1.") {
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Date: ") || strings.HasPrefix(l, "Connection: ") })
			slices.Sort(lines[1:])
			heads[i] = strings.Join(lines, "\r\n")
		}
	}
	return strings.Join(heads, "\r\n\r\n")
}

// sameAnswers checks that all ways give the same reply.
func sameAnswers(t *testing.T, upstream, raw string) {
	t.Helper()
	want := ask(t, upstream, raw, true)
	for name, addr := range ways(t, upstream) {
		if got := ask(t, addr, raw, true); got != want {
			t.Errorf("%s:\n%q, want\n%q", name, got, want)
		}
	}
}

const get = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"

// Replies arrive as the upstream wrote them, including 1xx replies.
func TestReplies(t *testing.T) {
	for name, reply := range map[string]string{
		"no content type":            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		"hints":                      "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/html\r\n\r\n<html>",
		"hints, no content type":     "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		"100 that nobody asked for":  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		"102":                        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
		"204":                        "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
		"304":                        "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\n\r\n",
		"empty":                      "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"several fields of one name": "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
		"redirect":                   "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/x?y#z\r\nContent-Length: 0\r\n\r\n",
		"429":                        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n\r\nslow",
		"500":                        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\nContent-Encoding: gzip\r\n\r\nslow",
		"chunks":                     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<html>\r\n0\r\n\r\n",
		"trailers":                   "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<html>\r\n0\r\nX-Sum: 1\r\n\r\n",
		"trailers, not announced":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<html>\r\n0\r\nX-Sum: 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameAnswers(t, says(t, reply), get)
		})
	}
}

// An HTTP/1.0 client receives no 1xx replies and no chunks.
func TestOldClient(t *testing.T) {
	upstream := says(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<html>\r\n0\r\n\r\n")
	for name, addr := range ways(t, upstream) {
		if name == "direct" {
			continue
		}
		const want = "HTTP/1.0 200 OK\r\n\r\n<html>"
		if got := ask(t, addr, "GET /a HTTP/1.0\r\n\r\n", true); got != want && got != strings.Replace(want, "1.0", "1.1", 1) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A client may wait for a part of the reply before it sends the next part of its request.
func TestBothWaysAtOnce(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = rc.Flush()
		b := make([]byte, 100)
		for {
			n, err := r.Body.Read(b)
			_, _ = w.Write(b[:n])
			_ = rc.Flush()
			if err != nil {
				return
			}
		}
	}))
	for name, addr := range map[string]string{"direct": upstream, "as it comes": inside(t, upstream, -1)} {
		for _, two := range []bool{false, true} {
			t.Run(fmt.Sprint(name, two), func(t *testing.T) { pingPong(t, addr, two) })
		}
	}
}

func pingPong(t *testing.T, addr string, two bool) {
	r, w := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, r)
	go func() { _, _ = io.WriteString(w, "0") }()
	resp, err := client(two).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.AfterFunc(5*time.Second, func() { _ = resp.Body.Close() })
	b := make([]byte, 1)
	for i := range 10 {
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != strconv.Itoa(i) {
			t.Fatalf("%q for %d, %v", b, i, err)
		}
		if i < 9 {
			_, _ = io.WriteString(w, strconv.Itoa(i+1))
		}
	}
	_ = w.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// client returns a client for HTTP/1.1, or for HTTP/2 with prior knowledge.
func client(two bool) *http.Client {
	tr := &http.Transport{DisableCompression: true, Protocols: &http.Protocols{}, IdleConnTimeout: time.Second}
	tr.Protocols.SetHTTP1(!two)
	tr.Protocols.SetUnencryptedHTTP2(two)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// A client that has half-closed its connection gets the upstream's answer or none, but never a different
// one.
func TestHalfClosed(t *testing.T) {
	upstream := script(t, func(c net.Conn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")
		return true
	})
	for name, addr := range ways(t, upstream) {
		for _, raw := range []string{get, post + "Content-Length: 5\r\n\r\nhello", post + chunks} {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, raw)
			_ = c.(*net.TCPConn).CloseWrite()
			answer, _ := io.ReadAll(c)
			_ = c.Close()
			if len(answer) > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 404")) {
				t.Errorf("%s: %q", name, answer)
			}
		}
	}
}

// A reply that refuses a request by its headers reaches the client before the body was sent.
func TestRefusedBeforeTheBody(t *testing.T) {
	for _, status := range []string{"401 Unauthorized", "417 Expectation Failed", "413 Request Entity Too Large"} {
		upstream := script(t, func(c net.Conn, _ *http.Request) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			return false
		})
		for name, addr := range map[string]string{"direct": upstream, "as it comes": inside(t, upstream, -1)} {
			for _, body := range []string{"Content-Length: 100000000\r\nExpect: 100-continue\r\n\r\n", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", "Content-Length: 100000000\r\n\r\nhello"} {
				want := "HTTP/1.1 " + status + "\r\nContent-Length: 2\r\n\r\nno"
				if got := ask(t, addr, post+body, false); got != want {
					t.Errorf("%s, %s: %q", name, status, got)
				}
			}
		}
	}
}

// The gateway waits for an upstream that sends "100 Continue"; for one that does not, it waits no longer
// than a client would.
func TestContinue(t *testing.T) {
	says := false
	upstream := script(t, func(c net.Conn, r *http.Request) bool {
		if says {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return true
	})
	for _, says = range []bool{true, false} {
		var all sync.WaitGroup
		for name, addr := range ways(t, upstream) {
			all.Go(func() {
				if err := continued(addr, says, !says && name != "direct"); err != nil {
					t.Errorf("%s, %v: %v", name, says, err)
				}
			})
		}
		all.Wait()
	}
}

// continued sends a body after "100 Continue" if early is set, and otherwise before it. If late is set,
// "100 Continue" must follow.
func continued(addr string, early, late bool) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, post+"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	r := bufio.NewReader(c)
	said := func() error {
		first, err := r.ReadString('\n')
		if err != nil || first != "HTTP/1.1 100 Continue\r\n" {
			return fmt.Errorf("%q, %v", first, err)
		}
		_, err = r.ReadString('\n')
		return err
	}
	if early {
		if err := said(); err != nil {
			return err
		}
	}
	_, _ = io.WriteString(c, "hello")
	if late { // the gateway asks for the body when its wait is over
		if err := said(); err != nil {
			return err
		}
	}
	resp, err := http.ReadResponse(r, nil)
	for err == nil && resp.StatusCode == http.StatusContinue { // each gateway of a pair may send it
		resp, err = http.ReadResponse(r, nil)
	}
	if err != nil {
		return err
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "hello" || err != nil {
		return fmt.Errorf("%q, %v", body, err)
	}
	return nil
}

// A request that is cut off never reaches an upstream as a complete one.
func TestCutRequests(t *testing.T) {
	for _, from := range []int{-1, 0} {
		u := newStrictUpstream(t)
		addr := inside(t, u.addr, from)
		for _, raw := range []string{post + "Content-Length: 100000\r\n\r\n" + string(text), post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhe"} {
			for _, reset := range []bool{false, true} {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(c, raw)
				time.Sleep(20 * time.Millisecond)
				if reset {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				_ = c.Close()
			}
		}
		time.Sleep(100 * time.Millisecond)
		if got, faults := u.got(); len(got)+len(faults) > 0 {
			t.Errorf("%d: %.200q, %q", from, got, faults)
		}
	}
}

// A reply that is cut off is cut off for the client too.
func TestCutReplies(t *testing.T) {
	half := string(text[:5000])
	for name, reply := range map[string]string{
		"length":       "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n" + half,
		"chunks":       "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n" + half + "\r\n",
		"within chunk": "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n" + half,
		"header":       "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Le",
	} {
		upstream := says(t, reply)
		for way, addr := range map[string]string{"direct": upstream, "as it comes": inside(t, upstream, -1), "compressed": inside(t, upstream, 0)} {
			for _, two := range []bool{false, true} {
				if two && way == "direct" {
					continue
				}
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr, nil)
				r.Header.Set("Accept-Encoding", "zstd")
				resp, err := client(two).Do(r)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				if err == nil && resp.StatusCode != http.StatusBadGateway {
					t.Errorf("%s, %s, %v: %s, and no error", name, way, two, resp.Status)
				}
			}
		}
	}
}

// Headers that are too large are refused with the status for that.
func TestHugeHeaders(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := strconv.Atoi(r.URL.RawQuery); n > 0 {
			w.Header().Set("X-Huge", strings.Repeat("x", n))
		}
	}))
	addr := inside(t, upstream, -1)
	for _, two := range []bool{false, true} {
		for _, c := range []struct{ request, reply, want int }{
			{1 << 10, 0, 200}, {60 << 10, 0, 200}, {100 << 10, 0, 431}, {0, 50 << 10, 200}, {0, 100 << 10, 502},
		} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/?%d", addr, c.reply), nil)
			for i := range 10 {
				r.Header.Set(fmt.Sprint("X-Huge-", i), strings.Repeat("x", c.request/10))
			}
			resp, err := client(two).Do(r)
			if err != nil && two && c.want == 431 {
				continue // so large that the server ends the connection
			}
			if err != nil {
				t.Errorf("HTTP/2 %v: %+v: %v", two, c, err)
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("HTTP/2 %v: %+v: %s", two, c, resp.Status)
			}
		}
	}
}

// A client that reads slowly, or stops reading, does not block other clients.
func TestSlowReader(t *testing.T) {
	large := bytes.Repeat(text, 1500) // more than socket buffers hold
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) }))
	addr := inside(t, upstream, 0)
	var stopped []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		stopped = append(stopped, c)
	}
	for _, two := range []bool{false, true} {
		resp, err := client(two).Get("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(&slowly{r: resp.Body})
		_ = resp.Body.Close()
		if err != nil || !bytes.Equal(body, large) {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	}
	for _, c := range stopped {
		_ = c.Close()
	}
}

// slowly pauses in its first reads.
type slowly struct {
	r     io.Reader
	reads int
}

func (s *slowly) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(len(p), 256<<10)])
	if s.reads++; s.reads < 20 {
		time.Sleep(5 * time.Millisecond)
	}
	return n, err
}

// The gateway does not wait for headers that never end, but does wait for a body that arrives byte by byte.
func TestSlowWriter(t *testing.T) {
	if !*long {
		t.Skip("asked for by -http.long")
	}
	u := newStrictUpstream(t)
	addr := inside(t, u.addr, -1)
	loris, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer loris.Close()
	_, _ = io.WriteString(loris, "GET / HTTP/1.1\r\nHost: x\r\n")
	began := time.Now()
	go func() {
		for range 20 {
			time.Sleep(time.Second)
			_, _ = io.WriteString(loris, "X: y\r\n")
		}
	}()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, post+"Content-Length: 12\r\n\r\n")
	for range 12 {
		time.Sleep(time.Second)
		_, _ = io.WriteString(c, "x")
	}
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusEarlyHints {
		t.Error("a slow body", err)
	}
	_ = loris.SetReadDeadline(time.Now().Add(5 * time.Second))
	if answer, err := io.ReadAll(loris); err != nil {
		t.Errorf("headers that take %v are waited for: %q, %v", time.Since(began), answer, err)
	}
}
