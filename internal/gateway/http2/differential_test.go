package http2

//lint:file-ignore SA1019 x/net's transport and server are what this package is compared with.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
)

func xnetServer(t *testing.T, handler http.HandlerFunc) string {
	l := listen(t)
	go func() {
		for {
			n, err := l.Accept()
			if err != nil {
				return
			}
			go (&xhttp2.Server{}).ServeConn(n, &xhttp2.ServeConnOpts{Handler: handler, BaseConfig: &http.Server{MaxHeaderBytes: testHeader}})
		}
	}()
	return l.Addr().String()
}

func xnetClient(t *testing.T, addr string) http.RoundTripper {
	tr := &xhttp2.Transport{
		AllowHTTP: true, DisableCompression: true,
		DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// exchange is a request and the handler that answers it.
type exchange struct {
	name    string
	request func(*http.Request)
	method  string
	body    func() io.Reader
	handler http.HandlerFunc
	breaks  bool // the exchange breaks a rule: the names of errors differ
}

// silent keeps x/net's server from adding headers.
func silent(w http.ResponseWriter) {
	for _, name := range []string{"Date", "Content-Type", "Content-Length"} {
		w.Header()[name] = nil
	}
}

// tell answers with all that the server knows of a request.
func tell(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %d %v\n", r.Method, r.RequestURI, r.Host, r.ContentLength, err)
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			fmt.Fprintf(w, "%s: %q\n", name, h[name])
		}
	}
	fmt.Fprintf(w, "%d %x\n", len(body), body[:min(len(body), 100)])
}

// chunks returns a body of unknown length.
func chunks(n int) func() io.Reader {
	return func() io.Reader {
		return io.MultiReader(strings.NewReader(strings.Repeat("a", n)), strings.NewReader(strings.Repeat("b", n)))
	}
}

func text(n int) func() io.Reader {
	return func() io.Reader { return strings.NewReader(strings.Repeat("t", n)) }
}

var exchanges = []exchange{
	{name: "get", method: "GET"},
	{name: "post", method: "POST", body: text(1000)},
	{name: "post of nothing", method: "POST", body: text(0)},
	{name: "post of much", method: "POST", body: text(1 << 20)},
	{name: "unknown length", method: "PUT", body: chunks(50_000)},
	{name: "a method of its own", method: "BREW", body: chunks(5)},
	{name: "many headers", method: "GET", request: func(r *http.Request) {
		for i := range 100 {
			r.Header.Add(fmt.Sprintf("X-Field-%d", i%37), strings.Repeat("v", i))
		}
	}},
	{name: "cookies", method: "GET", request: func(r *http.Request) { r.Header["Cookie"] = []string{"a=1; b=2", "c=3"} }},
	{name: "fields of connections", method: "GET", request: func(r *http.Request) {
		r.Header.Set("Connection", "keep-alive")
		r.Header.Set("Keep-Alive", "1")
		r.Header.Set("Proxy-Connection", "x")
		r.Header.Set("Te", "trailers")
	}},
	{name: "a query", method: "GET", request: func(r *http.Request) { r.URL.RawQuery = "a=b&c=%20" }},
	{name: "an opaque path", method: "GET", request: func(r *http.Request) { r.URL.Opaque = "/a//b/%41" }},
	{name: "another host", method: "GET", request: func(r *http.Request) { r.Host = "other:8080" }},
	{name: "request trailers", method: "POST", body: chunks(10), request: func(r *http.Request) {
		r.Trailer = http.Header{"X-Sum": {"1", "2"}, "X-None": nil}
	}},
	{name: "a header that is not valid", method: "GET", request: func(r *http.Request) { r.Header["X"] = []string{"a\r\nb"} }},
	{name: "a name that is not valid", method: "GET", request: func(r *http.Request) { r.Header["X Y"] = []string{"a"} }},
	{name: "expects to continue", method: "POST", body: text(2000), request: func(r *http.Request) { r.Header.Set("Expect", "100-continue") }},
	{name: "head", method: "HEAD", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "no content", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }},
	{name: "a body where none may be", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(304)
		_, err := io.WriteString(w, "hello")
		w.Header().Set(http.TrailerPrefix+"X-Error", fmt.Sprint(err))
	}},
	{name: "trailers", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Announced, X-Missing")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-Announced", "1")
		w.Header().Set(http.TrailerPrefix+"X-Not", "2")
		w.Header().Set("X-Late", "3")
	}},
	{name: "only headers", method: "POST", body: text(100), handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Grpc-Status", "5")
	}},
	{name: "flushed headers", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		_ = http.NewResponseController(w).Flush()
	}},
	{name: "early hints", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "a")
		w.WriteHeader(103)
		w.WriteHeader(200)
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "a length", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "more than the length", breaks: true, method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
		_, _ = io.WriteString(w, "!")
	}},
	{name: "less than the length", breaks: true, method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "much", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			_, _ = w.Write(make([]byte, 20_000))
		}
	}},
	{name: "aborted", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}},
	{name: "an answer before the body", method: "POST", body: text(1 << 20), handler: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(413)
	}},
	{name: "a read deadline", method: "POST", body: func() io.Reader { return &quiet{} }, handler: func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(aSecondAgo())
		_, err := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, fmt.Sprint(err))
	}},
	{name: "long headers", method: "GET", handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 30<<10))
	}},
	{name: "headers that are too long", method: "GET", request: func(r *http.Request) {
		r.Header.Set("X-Long", strings.Repeat("x", 60<<10))
	}},
}

// outcome returns what a client sees of an exchange.
func outcome(t *testing.T, rt http.RoundTripper, x exchange) string {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var body io.Reader
	if x.body != nil {
		body = x.body()
	}
	r := request(ctx, t, x.method, "/a/"+strings.ReplaceAll(x.name, " ", "-"), body)
	r.Header.Set("User-Agent", "test")
	if x.request != nil {
		x.request(r)
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return "error " + errorClass(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if x.breaks {
		return fmt.Sprintf("%d %v %s", resp.StatusCode, resp.Header, got)
	}
	trailer := http.Header{}
	for name, values := range resp.Trailer {
		if len(values) > 0 {
			trailer[name] = values
		}
	}
	return fmt.Sprintf("%d %s %v %d\n%s %v\n%v", resp.StatusCode, resp.Status, resp.Header, resp.ContentLength, got[:min(len(got), 5000)], errorClass(err), trailer)
}

func errorClass(err error) string {
	var reset xhttp2.StreamError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &reset):
		return "reset " + reset.Code.String()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errShortBody):
		return "cut"
	}
	return "other"
}

// TestAgreesWithXNet checks that this package's clients and servers and x/net's agree on every exchange.
func TestAgreesWithXNet(t *testing.T) {
	byPath := map[string]http.HandlerFunc{}
	for _, x := range exchanges {
		byPath["/a/"+strings.ReplaceAll(x.name, " ", "-")] = x.handler
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		silent(w)
		if h := byPath[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		tell(w, r)
	}
	theirs, ours, hidden := xnetServer(t, handler), serveWith(t, false, handler, nil), serveWith(t, true, handler, nil)
	ways := []struct {
		name string
		rt   http.RoundTripper
	}{
		{"x/net's client, x/net's server", xnetClient(t, theirs)},
		{"our client, x/net's server", dialWith(t, theirs, false)},
		{"x/net's client, our server", xnetClient(t, ours)},
		{"our client, our server", dialWith(t, ours, false)},
		{"our client, our server, by a goroutine that writes", dialWith(t, hidden, true)},
	}
	for _, x := range exchanges {
		var first string
		for i, way := range ways {
			got := outcome(t, way.rt, x)
			if i == 0 {
				first = got
			} else if got != first {
				t.Errorf("%s, %s:\n%s\nbut %s:\n%s", x.name, way.name, got, ways[0].name, first)
			}
		}
	}
}
