package http

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// downgraded is a request in HTTP/2 frames for an upstream that speaks HTTP/1.1.
type downgraded struct {
	name   string
	fields string   // one "name=value" per line; replaces default fields of the same name
	data   []string // DATA frames, the last one ends the stream; none: HEADERS ends it
	passes string   // the request that may reach the upstream; "": none
	must   bool
}

const meant = `POST /a "hello"`

var downgrades = []downgraded{
	{name: "plain", data: []string{"hel", "lo"}, passes: meant, must: true},
	{name: "with its length", fields: "content-length=5", data: []string{"hello"}, passes: meant, must: true},
	{name: "length too small", fields: "content-length=4", data: []string{"hello"}},
	{name: "length too small by a frame", fields: "content-length=3", data: []string{"hel", "lo"}, passes: `POST /a "hel"`},
	{name: "length too large", fields: "content-length=6", data: []string{"hello"}},
	{name: "length and no body", fields: "content-length=5"},
	{name: "length of nothing, and a body", fields: "content-length=0", data: []string{"hello"}, passes: `POST /a ""`},
	{name: "length with a plus", fields: "content-length=+5", data: []string{"hello"}},
	{name: "length with a letter", fields: "content-length=x", data: []string{"hello"}},
	{name: "length that is empty", fields: "content-length=", data: []string{"hello"}},
	{name: "two lengths, equal", fields: "content-length=5\ncontent-length=5", data: []string{"hello"}, passes: meant},
	{name: "two lengths, different", fields: "content-length=5\ncontent-length=0", data: []string{"hello"}},
	{name: "length of nothing twice", fields: "content-length=0\ncontent-length=5", data: []string{"hello"}},
	{name: "transfer-encoding", fields: "transfer-encoding=chunked", data: []string{"0\r\n\r\n" + smuggled}},
	{name: "transfer-encoding, odd", fields: "transfer-encoding=x", data: []string{"hello"}},
	{name: "connection", fields: "connection=close", data: []string{"hello"}},
	{name: "connection names a field", fields: "connection=content-length\ncontent-length=5", data: []string{"hello"}},
	{name: "keep-alive", fields: "keep-alive=x", data: []string{"hello"}},
	{name: "proxy-connection", fields: "proxy-connection=x", data: []string{"hello"}},
	{name: "upgrade", fields: "upgrade=h2c", data: []string{"hello"}},
	{name: "te", fields: "te=gzip", data: []string{"hello"}},
	{name: "te: trailers", fields: "te=trailers", data: []string{"hello"}, passes: meant, must: true},
	{name: "CR LF in a name", fields: "x: y\r{LF}transfer-encoding=chunked", data: []string{"hello"}},
	{name: "CR LF in a value", fields: "x=y\r{LF}transfer-encoding: chunked", data: []string{"hello"}},
	{name: "LF in a value", fields: "x=y{LF}z: a", data: []string{"hello"}},
	{name: "NUL in a value", fields: "x=y\x00", data: []string{"hello"}},
	{name: "colon in a name", fields: "x:y=z", data: []string{"hello"}},
	{name: "space in a name", fields: "x y=z", data: []string{"hello"}},
	{name: "capitals in a name", fields: "X-y=z", data: []string{"hello"}},
	{name: "empty name", fields: "=z", data: []string{"hello"}},
	{name: "CR LF in the path", fields: ":path=/a HTTP/1.1\r{LF}x: y\r{LF}", data: []string{"hello"}},
	{name: "space in the path", fields: ":path=/smuggled HTTP/1.1", data: []string{"hello"}},
	{name: "tab in the path", fields: ":path=/a\tb", data: []string{"hello"}},
	{name: "path without a slash", fields: ":path=a", data: []string{"hello"}},
	{name: "absolute path", fields: ":path=http://y/a", data: []string{"hello"}},
	{name: "empty path", fields: ":path=", data: []string{"hello"}},
	{name: "two paths", fields: ":path=/a\n:path=/b", data: []string{"hello"}},
	{name: "space in the method", fields: ":method=GET /smuggled HTTP/1.1", data: []string{"hello"}},
	{name: "CR LF in the method", fields: ":method=GET / HTTP/1.1\r{LF}x: y\r{LF}", data: []string{"hello"}},
	{name: "CR LF in the authority", fields: ":authority=x\r{LF}y: z", data: []string{"hello"}},
	{name: "space in the authority", fields: ":authority=x y", data: []string{"hello"}},
	{name: "path in the authority", fields: ":authority=x/smuggled", data: []string{"hello"}},
	{name: "user in the authority", fields: ":authority=u@x", data: []string{"hello"}},
	{name: "other host than authority", fields: "host=y", data: []string{"hello"}, passes: meant},
	{name: "two hosts", fields: ":authority=\nhost=x\nhost=y", data: []string{"hello"}, passes: meant},
	{name: "odd scheme", fields: ":scheme=http://x/smuggled?", data: []string{"hello"}, passes: meant},
	{name: "pseudo field at the end", fields: "x=y\n:path=/b", data: []string{"hello"}},
	{name: "pseudo field that nobody knows", fields: ":x=y", data: []string{"hello"}},
	{name: "CONNECT", fields: ":method=CONNECT", data: []string{smuggled}},
	{name: "body with a request in it", data: []string{"0\r\n\r\n" + smuggled}, passes: `POST /a "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"`, must: true},
}

// What HTTP/2 can express and HTTP/1.1 cannot never reaches an upstream as a different request.
func TestDowngrade(t *testing.T) {
	var all atOnce
	for _, mode := range modes {
		for _, c := range downgrades {
			all.run(t, mode.name+"/"+c.name, func(t *testing.T) {
				u := newStrictUpstream(t)
				addr := mode.start(t, u.addr)
				u.forget()
				answer := c.send(t, addr)
				c.judge(t, u, answer)
			})
		}
	}
	all.Wait()
}

func (c downgraded) judge(t *testing.T, u *strictUpstream, answer string) {
	t.Helper()
	got, faults := u.got()
	for _, f := range faults {
		t.Error("the upstream reads otherwise:", f)
	}
	want := []string{c.passes}
	if len(got) > 0 && (c.passes == "" || !slices.Equal(got, want)) || c.must && len(got) == 0 {
		t.Errorf("%s: the upstream got %s, may get %q", answer, got, c.passes)
	}
	if len(got) == 0 && answer == "200" {
		t.Error("200, but nothing came to the upstream")
	}
	t.Log(answer)
}

// lines returns the fields of the header block. Given fields replace default ones of the same name, unless
// the first given field is named x.
func (c downgraded) lines() (all [][2]string) {
	given := strings.Split(c.fields, "\n")
	for _, usual := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/a"}} {
		if !slices.ContainsFunc(given, func(s string) bool { return strings.HasPrefix(s, usual[0]+"=") && !strings.HasPrefix(given[0], "x=") }) {
			all = append(all, usual)
		}
	}
	for _, line := range given {
		line = strings.ReplaceAll(line, "{LF}", "\n")
		if name, value, ok := strings.Cut(line, "="); ok && line != ":authority=" {
			all = append(all, [2]string{name, value})
		}
	}
	return all
}

// block encodes the fields in the order of lines.
func (c downgraded) block() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, l := range c.lines() {
		_ = e.WriteField(hpack.HeaderField{Name: l[0], Value: l[1]})
	}
	return b.Bytes()
}

// send sends the request and returns the result: a status, or how the stream or the connection ended.
func (c downgraded) send(t *testing.T, addr string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f := http2.NewFramer(conn, conn)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(), EndHeaders: true, EndStream: len(c.data) == 0})
	for i, d := range c.data {
		_ = f.WriteData(1, i == len(c.data)-1, []byte(d))
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	answer := firstAnswer(f)
	time.Sleep(50 * time.Millisecond) // the gateway might still send something
	return answer
}

func firstAnswer(f *http2.Framer) string {
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := f.ReadFrame()
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if status := frame.PseudoValue("status"); status != "103" {
				return status
			}
		case *http2.RSTStreamFrame:
			return "reset: " + frame.ErrCode.String()
		case *http2.GoAwayFrame:
			return "go away: " + frame.ErrCode.String()
		}
		if err != nil && !errors.As(err, new(http2.StreamError)) {
			return err.Error()
		}
	}
}
