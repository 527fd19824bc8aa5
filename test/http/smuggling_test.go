package http

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// hostile holds the bytes that a client sends on a connection, and the requests that may reach an upstream:
// all of them, a prefix, or none. must marks requests that have to arrive.
type hostile struct {
	name, raw string
	passes    []string
	must      bool
}

const (
	post     = "POST /a HTTP/1.1\r\nHost: x\r\n"
	smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	inChunk  = "5\r\nhello\r\n0\r\n\r\n"
	chunks   = "Transfer-Encoding: chunked\r\n\r\n" + inChunk
)

// hello is a request for /a with the body that the client meant.
var hello = []string{`POST /a "hello"`}

var corpus = slices.Concat(lengthsAndChunks, oddChunks, oddHeads, oddTargets, plainOnes)

var lengthsAndChunks = []hostile{
	{name: "CL.TE", raw: post + "Content-Length: 6\r\n" + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", passes: []string{`POST /a ""`}},
	{name: "CL.TE, a request behind", raw: post + "Content-Length: 41\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + "XGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", passes: []string{`POST /a ""`}},
	{name: "TE.CL", raw: post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n23\r\n" + smuggled + "\r\n0\r\n\r\n", passes: []string{`POST /a "` + strings.ReplaceAll(strings.ReplaceAll(smuggled, "\r", `\r`), "\n", `\n`) + `"`}},
	{name: "TE, odd spelling", raw: post + "Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n" + inChunk},
	{name: "TE with a space before the colon", raw: post + "Content-Length: 5\r\nTransfer-Encoding : chunked\r\n\r\n" + inChunk},
	{name: "TE with a tab", raw: post + "Content-Length: 5\r\nTransfer-Encoding:\tchunked\r\n\r\n" + inChunk, passes: hello},
	{name: "TE with a vertical tab", raw: post + "Content-Length: 5\r\nTransfer-Encoding:\vchunked\r\n\r\n" + inChunk},
	{name: "TE in capitals", raw: post + "tRANSFER-eNCODING: CHUNKED\r\n\r\n" + inChunk, passes: hello, must: true},
	{name: "TE folded", raw: post + "Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" + inChunk, passes: hello},
	{name: "TE behind a folded field", raw: post + "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "TE twice", raw: post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + inChunk},
	{name: "TE twice, chunked last", raw: post + "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunk},
	{name: "TE twice the same", raw: post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunk},
	{name: "TE list", raw: post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + inChunk},
	{name: "TE list, chunked first", raw: post + "Content-Length: 5\r\nTransfer-Encoding: chunked, identity\r\n\r\n" + inChunk},
	{name: "TE in quotes", raw: post + "Content-Length: 5\r\nTransfer-Encoding: \"chunked\"\r\n\r\nhello"},
	{name: "TE with a parameter", raw: post + "Content-Length: 5\r\nTransfer-Encoding: chunked;q=1\r\n\r\n" + inChunk},
	{name: "TE with an underscore", raw: post + "Content-Length: 5\r\nTransfer_Encoding: chunked\r\n\r\nhello", passes: hello},
	{name: "TE with a NUL", raw: post + "Content-Length: 5\r\nTransfer-Encoding: chunked\x00\r\n\r\nhello"},
	{name: "TE that is empty", raw: post + "Content-Length: 5\r\nTransfer-Encoding:\r\n\r\nhello"},
	{name: "TE behind a bare CR", raw: post + "X: y\rTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "TE behind a bare LF", raw: post + "X: y\nTransfer-Encoding: chunked\r\n\r\n" + inChunk, passes: hello},
	{name: "TE in HTTP/1.0", raw: "POST /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, passes: []string{`POST /a ""`}},
	{name: "TE and length in HTTP/1.0", raw: "POST /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello", passes: hello},
	{name: "two lengths, equal", raw: post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "two lengths, different", raw: post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"},
	{name: "two lengths in one field", raw: post + "Content-Length: 5, 5\r\n\r\nhello", passes: hello},
	{name: "two different lengths in one field", raw: post + "Content-Length: 5, 6\r\n\r\nhello!"},
	{name: "length with a plus", raw: post + "Content-Length: +5\r\n\r\nhello"},
	{name: "length with a minus", raw: post + "Content-Length: -5\r\n\r\nhello"},
	{name: "length with a space within", raw: post + "Content-Length: 5 0\r\n\r\nhello"},
	{name: "length with an underscore", raw: post + "Content-Length: 0_5\r\n\r\nhello"},
	{name: "length with zeros before", raw: post + "Content-Length: 005\r\n\r\nhello", passes: hello},
	{name: "length in hexadecimal", raw: post + "Content-Length: 0x5\r\n\r\nhello"},
	{name: "length that is empty", raw: post + "Content-Length:\r\n\r\nhello", passes: []string{`POST /a ""`}},
	{name: "length too large", raw: post + "Content-Length: 18446744073709551621\r\n\r\nhello"},
	{name: "length behind a tab", raw: post + "Content-Length:\t5\r\n\r\nhello", passes: hello},
	{name: "length with a letter", raw: post + "Content-Length: 5a\r\n\r\nhello"},
	{name: "length that its connection names", raw: post + "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "length folded", raw: post + "Content-Length:\r\n 5\r\n\r\nhello", passes: hello},
	{name: "a request in the body of a GET", raw: "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 35\r\n\r\n" + smuggled, passes: []string{`GET /a "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"`}},
}

var oddChunks = []hostile{
	{name: "chunk extension", raw: post + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0;x\r\n\r\n", passes: hello},
	{name: "chunk extension with a bare LF", raw: post + "Transfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n"},
	{name: "chunk extension with a CR", raw: post + "Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n", passes: hello},
	{name: "chunk ended by a bare LF", raw: post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n"},
	{name: "chunk size ended by a bare LF", raw: post + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"},
	{name: "chunk size with 0x", raw: post + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"},
	{name: "chunk size with a plus", raw: post + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"},
	{name: "chunk size with a minus", raw: post + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"},
	{name: "chunk size with a space before", raw: post + "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n"},
	{name: "chunk size with a space behind", raw: post + "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", passes: hello},
	{name: "chunk size that is empty", raw: post + "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n"},
	{name: "chunk size too large", raw: post + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"},
	{name: "chunk larger than its size", raw: post + "Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n"},
	{name: "chunk with zeros before", raw: post + "Transfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n0000\r\n\r\n", passes: hello},
	{name: "bad chunk and a request behind", raw: post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n\r\n" + smuggled},
	{name: "no last chunk", raw: post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	{name: "forbidden trailers", raw: post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\nHost: y\r\nAuthorization: z\r\n\r\n", passes: hello},
	{name: "forbidden trailers, announced", raw: post + "Trailer: Content-Length, Host\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 50\r\nHost: y\r\n\r\n", passes: hello},
	{name: "authorization in trailers, announced", raw: post + "Trailer: Authorization, Content-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nAuthorization: z\r\nContent-Encoding: gzip\r\n\r\n", passes: hello},
	{name: "trailers with a request in them", raw: post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n" + smuggled, passes: []string{hello[0], `GET /smuggled ""`}, must: true},
}

var oddHeads = []hostile{
	{name: "space before a colon", raw: post + "X : y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "no colon", raw: post + "X\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "no name", raw: post + ": y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "NUL in a name", raw: post + "X\x00: y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "NUL in a value", raw: post + "X: y\x00z\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "bare CR in a value", raw: post + "X: y\rz\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "bare CR for an end", raw: "POST /a HTTP/1.1\rHost: x\r\rContent-Length: 5\r\r\r\rhello"},
	{name: "bare LF for every end", raw: "POST /a HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello", passes: hello},
	{name: "folded field", raw: post + "X: a\r\n b\r\n\tc\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "folded field at first", raw: "POST /a HTTP/1.1\r\n Host: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "name with high bytes", raw: post + "X\xff: y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "value with high bytes", raw: post + "X: \xff\xfe\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "name in brackets", raw: post + "(X): y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "no host", raw: "POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "two hosts", raw: post + "Host: y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "two hosts, equal", raw: post + "Host: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "two hosts in one field", raw: "POST /a HTTP/1.1\r\nHost: x, y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "host with a path", raw: "POST /a HTTP/1.1\r\nHost: x/../y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "host with a space", raw: "POST /a HTTP/1.1\r\nHost: x y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "host with a user", raw: "POST /a HTTP/1.1\r\nHost: u@x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "empty host", raw: "POST /a HTTP/1.1\r\nHost:\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "host folded", raw: "POST /a HTTP/1.1\r\nHost: x\r\n y\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "an empty line first", raw: "\r\n" + post + "Content-Length: 5\r\n\r\nhello", passes: hello},
	{name: "HTTP/0.9", raw: "GET /a\r\n"},
	{name: "HTTP/1.2", raw: "POST /a HTTP/1.2\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "HTTP/2.0 in HTTP/1", raw: "POST /a HTTP/2.0\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "HTTP in small letters", raw: "POST /a http/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "two spaces", raw: "POST  /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "space behind the version", raw: "POST /a HTTP/1.1 \r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "tab for a space", raw: "POST\t/a\tHTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "method with a bracket", raw: "PO(ST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "upgrade to h2c", raw: "POST /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
}

var oddTargets = []hostile{
	{name: "absolute form, other host", raw: "POST http://y/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "absolute form, no host", raw: "POST http://y/a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "absolute form, user", raw: "POST http://u:p@y/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: hello},
	{name: "space in the target", raw: "POST /a b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "tab in the target", raw: "POST /a\tb HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "NUL in the target", raw: "POST /a\x00b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "escaped CR LF in the target", raw: "POST /a%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: []string{`POST /a%0d%0aX:%20y "hello"`}, must: true},
	{name: "fragment", raw: "POST /a#b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: []string{`POST /a#b "hello"`}},
	{name: "target without a slash", raw: "POST a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "target *", raw: "OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: []string{`OPTIONS * "hello"`}, must: true},
	{name: "two slashes", raw: "POST //y/a%7e HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: []string{`POST //y/a%7e "hello"`}, must: true},
	{name: "odd bytes in the target", raw: "POST /\xff\"<>\\^`{|}?\xff\" HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: []string{"POST /\xff\"<>\\^`{|}?\xff\" \"hello\""}, must: true},
	{name: "CONNECT", raw: "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled},
}

var plainOnes = []hostile{
	{name: "length", raw: post + "Content-Length: 5\r\n\r\nhello", passes: hello, must: true},
	{name: "chunks", raw: post + chunks, passes: hello, must: true},
	{name: "pipelined", raw: post + "Content-Length: 5\r\n\r\nhello" + smuggled + post + chunks, passes: []string{hello[0], `GET /smuggled ""`, hello[0]}, must: true},
	{name: "HTTP/1.0", raw: "POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + smuggled, passes: hello, must: true},
	{name: "HTTP/1.0 without a host", raw: "POST /a HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", passes: hello, must: true},
	{name: "HTTP/1.0 with keep-alive", raw: "POST /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello" + smuggled, passes: []string{hello[0], `GET /smuggled ""`}, must: true},
	{name: "body of a GET", raw: "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", passes: []string{`GET /a "hello"`}, must: true},
	{name: "chunked body of a GET", raw: "GET /a HTTP/1.1\r\nHost: x\r\n" + chunks, passes: []string{`GET /a "hello"`}, must: true},
	{name: "close, and more", raw: post + "Connection: close\r\nContent-Length: 5\r\n\r\nhello" + smuggled, passes: hello, must: true},
}

// modes are the ways in which gateways treat bodies.
var modes = []struct {
	name  string
	start func(t testing.TB, upstream string) (addr string)
}{
	{"as it comes", func(t testing.TB, upstream string) string { return inside(t, upstream, -1) }},
	{"compressed", func(t testing.TB, upstream string) string { return inside(t, upstream, 0) }},
	{"a pair", paired},
}

// For anything that a client sends, the requests that reach the upstream are unambiguous and are those that
// the client may have meant: one request never becomes two, and no body changes.
func TestSmuggling(t *testing.T) {
	var all atOnce
	for _, mode := range modes {
		for _, c := range corpus {
			all.run(t, mode.name+"/"+c.name, func(t *testing.T) {
				u := newStrictUpstream(t)
				addr := mode.start(t, u.addr)
				u.forget()
				least := 0
				if c.must {
					least = len(c.passes)
				}
				c.judge(t, u, converse(t, addr, c.raw, least))
			})
		}
	}
	all.Wait()
}

// atOnce runs more tests at once than there are processors, since the tests mostly wait.
type atOnce struct {
	sync.WaitGroup
	running chan struct{}
}

func (a *atOnce) run(t *testing.T, name string, test func(*testing.T)) {
	if a.running == nil {
		a.running = make(chan struct{}, 16)
	}
	a.running <- struct{}{}
	a.Go(func() {
		defer func() { <-a.running }()
		t.Run(name, test)
	})
}

func (c hostile) judge(t *testing.T, u *strictUpstream, statuses []int) {
	t.Helper()
	got, faults := u.got()
	for _, f := range faults {
		t.Error("the upstream reads otherwise:", f)
	}
	if len(got) > len(c.passes) || !slices.Equal(got, c.passes[:len(got)]) || c.must && len(got) < len(c.passes) {
		t.Errorf("%v: the upstream got %s, may get %s", statuses, got, c.passes)
	}
	if len(got) == 0 && slices.Contains(statuses, http.StatusOK) {
		t.Errorf("%v, but nothing came to the upstream", statuses)
	}
	if len(c.passes) == 0 || len(got) == 0 {
		t.Logf("refused: %v", statuses)
	}
}

// quiet limits how long a client waits for further replies of a gateway.
const quiet = 200 * time.Millisecond

// converse sends bytes and returns the status of each reply. It waits for at least least replies, and for
// those that follow soon.
func converse(t *testing.T, addr, raw string, least int) (statuses []int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Log(err)
	}
	r := bufio.NewReader(c)
	for {
		wait := quiet
		if len(statuses) < least {
			wait = 20 * time.Second
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusEarlyHints {
			statuses = append(statuses, resp.StatusCode)
		}
	}
}
