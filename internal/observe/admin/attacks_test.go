package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/observe/history"
)

// private must not appear in any answer to an unauthenticated client.
const private = "redis.private:6379"

// everything returns the options of a server with all routes, and the number of its action's calls.
func everything(t *testing.T, access Access) (o Options, ran *int) {
	t.Helper()
	o, ran = sampleOptions(t), new(int)
	describe := o.Describe
	o.Describe = func() Description {
		d := describe()
		d.Gateways[0].Upstream = "tcp://" + private
		return d
	}
	o.Access, o.PProf, o.History = access, true, history.Open(history.Options{})
	o.Ready = func(ReadyQuery) ([]string, error) { return nil, errors.New(private + " is away") }
	o.Messages = func() []GatewayKinds { return []GatewayKinds{{Gateway: private}} }
	o.Documents = []Document{{Name: "document", Get: func() any { return private }}}
	o.Actions = []Action{
		{Name: "run", Run: func() error { *ran++; return nil }},
		{Name: "do", Do: func(context.Context, []byte) (any, error) { *ran++; return private, nil }},
	}
	return o, ran
}

// route is a method and a path as in the source.
type route struct{ method, path string }

var (
	routeText = regexp.MustCompile(`^"(GET|POST) (/[^"]*)"$`)
	wildcard  = regexp.MustCompile(`\{[^}]*\}`)
)

// routes returns the routes in the package's source, so that new ones are attacked too.
func routes(t *testing.T) (all []route) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if m := routeText.FindStringSubmatch(lit.Value); m != nil {
					all = append(all, named(route{m[1], wildcard.ReplaceAllString(m[2], "")})...)
				}
			}
			return true
		})
	}
	if len(all) < 15 {
		t.Fatalf("only %d routes found", len(all))
	}
	return all
}

// named completes routes whose names are added at run time.
func named(r route) (all []route) {
	names := []string{""}
	switch r.path {
	case "/api/":
		names = []string{"document"}
	case "/api/actions/":
		names = []string{"run", "do"}
	case "/readyz/":
		names = []string{"cache"}
	}
	if r.path == "/" {
		names = append(names, assets()...)
	}
	for _, name := range names {
		all = append(all, route{r.method, r.path + name})
	}
	return all
}

// probed reports whether all clients get a one-word answer.
func (r route) probed() bool {
	return r.path == "/healthz" || r.path == "/readyz" || strings.HasPrefix(r.path, "/readyz/")
}

// answerTo returns the answer as a client on the wire would get it. It does not wait for streams and profiles.
func answerTo(t *testing.T, h http.Handler, method, path, host string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	cancel() // endless answers end at once
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost:9470"+path, nil)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// attack is a request that must be refused.
type attack struct {
	name   string
	host   string // "": localhost
	query  string
	header []string
}

const right = "Bearer " + secret

// unauthenticated clients have no token, a wrong one, or the right one in the wrong place.
var unauthenticated = []attack{
	{name: "nothing"},
	{name: "a wrong token", header: []string{"Authorization", "Bearer " + strings.ToUpper(secret)[:19] + "x"}},
	{name: "a part of it", header: []string{"Authorization", "Bearer " + secret[:19]}},
	{name: "more than it", header: []string{"Authorization", right + "0"}},
	{name: "an empty one", header: []string{"Authorization", "Bearer "}},
	{name: "no scheme", header: []string{"Authorization", secret}},
	{name: "another scheme", header: []string{"Authorization", "Digest " + secret}},
	{name: "as a user", header: []string{"Authorization", "Basic MDEyMzQ1Njc4OWFiY2RlZjAxMjM6"}}, // secret with an empty password
	{name: "in the query", query: "?token=" + secret + "&access_token=" + secret},
	{name: "in a cookie", header: []string{"Cookie", "token=" + secret + "; Authorization=" + secret}},
	{name: "in other headers", header: []string{"Proxy-Authorization", right, "X-Authorization", right, "X-Auth-Token", secret}},
	{name: "behind a wrong one", header: []string{"Authorization", "Bearer wrong", "Authorization", right}},
	{name: "from loopback, it says", header: []string{"X-Forwarded-For", "127.0.0.1", "Forwarded", "for=127.0.0.1;host=localhost", "X-Real-IP", "127.0.0.1"}},
	{name: "another path, it says", header: []string{"X-Original-URL", "/healthz", "X-Rewrite-URL", "/healthz", "X-HTTP-Method-Override", "GET"}},
	{name: "an upgrade", header: []string{"Connection", "Upgrade", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA"}},
	{name: "a proxy's host", host: "evil.example", header: []string{"X-Forwarded-Host", "localhost"}},
}

// foreigners reach a listener on loopback from another site's page.
var foreigners = []attack{
	{name: "rebinding", host: "evil.example"},
	{name: "rebinding with a port", host: "evil.example:9470"},
	{name: "a name that begins like ours", host: "localhost.evil.example"},
	{name: "a name that ends like ours", host: "evillocalhost"},
	{name: "a user before the host", host: "localhost@evil.example"},
	{name: "an address as part of a name", host: "127.0.0.1.evil.example"},
	{name: "no host", host: "none"},
	{name: "a proxy that says localhost", host: "evil.example", header: []string{"X-Forwarded-Host", "localhost"}},
	{name: "a request of another site", header: []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}},
	{name: "of a browser that says less", header: []string{"Origin", "http://evil.example"}},
	{name: "of another port of this machine", header: []string{"Origin", "http://localhost:8080", "Sec-Fetch-Site", "same-site"}},
	{name: "of a sandbox", header: []string{"Origin", "null"}},
	{name: "an image or script of another site", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}},
	{name: "a frame of another site", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}},
	{name: "a page's form", header: []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
}

func (a attack) at() string {
	switch a.host {
	case "":
		return "localhost:9470"
	case "none":
		return ""
	}
	return a.host
}

// nothing fails the test if an answer gives an unauthenticated client more than a refusal or a probe's word.
func nothing(t *testing.T, what string, r route, w *httptest.ResponseRecorder) {
	t.Helper()
	body := w.Body.String()
	switch {
	case strings.Contains(body, "private"), strings.Contains(body, "cinch_"), strings.Contains(body, "import "):
		t.Errorf("%s: %s %s: %d %.300s", what, r.method, r.path, w.Code, body)
	case r.probed() && (r.method == "GET" || r.method == "HEAD") && (w.Code == 200 && body == "ok\n" || w.Code == 503 && body == "not ready\n"):
	case w.Code < 400 || w.Code >= 500, len(body) > 300:
		t.Errorf("%s: %s %s: %d %.300s", what, r.method, r.path, w.Code, body)
	}
	if w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%s: %s %s: other sites may read it", what, r.method, r.path)
	}
}

// On non-loopback addresses only a token in the right place opens a route.
func TestUnauthenticatedClientsGetNothing(t *testing.T) {
	_, token := tokenFile(t, secret)
	o, ran := everything(t, Access{Token: token})
	h := New(o).Handler()
	for _, r := range routes(t) {
		for _, a := range unauthenticated {
			for _, method := range []string{r.method, "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "PROPFIND"} {
				nothing(t, a.name, route{method, r.path}, answerTo(t, h, method, r.path+a.query, a.at(), a.header...))
			}
		}
		if r.path == "/debug/pprof/profile" || r.path == "/debug/pprof/trace" { // these take some time
			continue
		}
		if w := answerTo(t, h, r.method, r.path, "cinch.internal", "Authorization", right); w.Code >= 400 && !r.probed() {
			t.Errorf("the token in its place: %s %s: %d %s", r.method, r.path, w.Code, w.Body)
		}
	}
	if *ran != 2 { // by the requests with the token
		t.Errorf("actions ran %d times", *ran)
	}
}

// On loopback another site's page gets nothing by any route, host name or method; and actions take the token
// there, too.
func TestForeignPagesGetNothing(t *testing.T) {
	_, token := tokenFile(t, secret)
	o, ran := everything(t, Access{Open: true, Token: token})
	h := New(o).Handler()
	for _, r := range routes(t) {
		for _, a := range foreigners {
			opens := r.method == "GET" && a.name == "a page's form" // following a link; see below
			if opens {
				continue
			}
			nothing(t, a.name, r, answerTo(t, h, r.method, r.path, a.at(), a.header...))
			if r.method == "POST" && strings.HasPrefix(a.at(), "localhost:") { // a browser that remembers the token sends it
				nothing(t, a.name+" with the token", r, answerTo(t, h, r.method, r.path, a.at(), append(slices.Clone(a.header), "Authorization", right)...))
			}
		}
		if r.method == "POST" {
			for _, a := range unauthenticated {
				nothing(t, a.name, r, answerTo(t, h, r.method, r.path+a.query, a.at(), a.header...))
			}
		}
	}
	if *ran != 0 {
		t.Errorf("actions ran %d times", *ran)
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	if w := answerTo(t, h, "GET", "/", "localhost:9470", link...); w.Code != 200 {
		t.Errorf("a link from another page, such as a runbook's: %d", w.Code)
	}
}

// traversals are request lines that try to reach files outside the page.
var traversals = []string{
	"/../../../../etc/passwd", "/page/../admin.go", "/page.css/../../access.go", "/page/page.js", "/page/", "/admin.go",
	"/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2f..%2fetc%2fpasswd", "/%2e%2e%2f%2e%2e%2fetc/passwd", "/..%5c..%5cetc%5cpasswd", `/..\..\etc\passwd`,
	"/page.js/..%2f..%2faccess.go", "/page.css%00.go", "/page.js%2500", "/.%00./etc/passwd", "/%252e%252e/etc/passwd", "/..;/etc/passwd",
	"//etc/passwd", "///etc/passwd", "//evil.example/..", "//evil.example/%2e%2e", "/%2f/evil.example", "/\\evil.example",
	"/api/../debug/pprof/cmdline", "/debug/pprof/cmdline", "/debug/pprof/../../../etc/passwd", "/debug/pprof/..%2f..%2fetc%2fpasswd",
	"/api/actions/../actions/run", "/api/actions/", "/api/actions", "/api/", "/api/actions/..%2fstatus", "/api/history/../../etc/passwd",
	"/healthz/../api/status", "/healthz/..%2fapi%2fstatus", "/healthz%2f..%2fapi%2fstatus", "/readyz/../api/status", "/readyz/..%2f..%2fapi%2fstatus", "/readyz/%2e%2e/api/status",
	"/healthz;/api/status", "/healthz?/../api/status", "/healthz#/api/status", "/readyz//api/status", "/./api/status", "//api/status", "/api//status",
}

// Paths with traversals get nothing, with and without the token, and redirect no client to another host.
func TestTraversal(t *testing.T) {
	_, token := tokenFile(t, secret)
	for name, access := range map[string]Access{"on loopback": {Open: true, Token: token}, "off loopback": {Token: token}} {
		o, _ := everything(t, access)
		addr := served(t, o)
		for _, path := range traversals {
			for _, header := range []string{"", "Authorization: " + right + "\r\n"} {
				resp, body := raw(t, addr, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+header+"Connection: close\r\n\r\n")
				what := fmt.Sprintf("%s: %s %.20q: %d %.200s", name, path, header, resp.StatusCode, body)
				trusted := access.Open || header != ""
				if strings.Contains(body, "root:") || strings.Contains(body, "package admin") || strings.Contains(body, "test.run") || !trusted && strings.Contains(body, "private") {
					t.Error(what)
				}
				probe := strings.HasPrefix(path, "/healthz?") || strings.HasPrefix(path, "/readyz/") || resp.StatusCode == 503
				if resp.StatusCode == 200 && !probe && body != "ok\n" {
					t.Error(what)
				}
				if to := resp.Header.Get("Location"); to != "" && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`)) {
					t.Errorf("%s leads to %s", what, to)
				}
			}
		}
	}
}

// Malformed or unusual requests.
func TestOddRequests(t *testing.T) {
	_, token := tokenFile(t, secret)
	open, _ := everything(t, Access{Open: true, Token: token})
	closed, ran := everything(t, Access{Token: token})
	on, off := served(t, open), served(t, closed)
	auth := "Authorization: " + right + "\r\n"
	for _, c := range []struct {
		name, addr, text string
		want             int
	}{
		{"HTTP/1.0 without a host", on, "GET /api/status HTTP/1.0\r\n\r\n", 421},
		{"HTTP/1.0 with the token", off, "GET /page.css HTTP/1.0\r\n" + auth + "\r\n", 200},
		{"HTTP/1.1 without a host", on, "GET /api/status HTTP/1.1\r\n\r\n", 400},
		{"two hosts", on, "GET /api/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400},
		{"a host in the line", on, "GET http://evil.example/api/status HTTP/1.1\r\nHost: localhost\r\n\r\n", 421},
		{"a file in the line", on, "GET file:///etc/passwd HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
		{"a proxy's request", on, "CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
		{"all of it", off, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 401},
		{"HTTP/0.9", on, "GET /api/status\r\n\r\n", 400},
		{"HTTP/2 without TLS", off, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 401},
		{"a header of 20 KB", off, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", 431},
		{"headers of 1 MB", off, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 1000) + "\r\n", 431},
		{"a line of 100 KB", off, "GET /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 431},
		{"a token of 15 KB", off, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + strings.Repeat("x", 15<<10) + "\r\n\r\n", 401},
		{"two lengths", off, "POST /api/actions/do HTTP/1.1\r\nHost: localhost\r\n" + auth + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		{"a length and pieces", off, "POST /api/actions/do HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 401},
		{"unknown pieces", off, "POST /api/actions/do HTTP/1.1\r\nHost: localhost\r\n" + auth + "Transfer-Encoding: gzip\r\n\r\n", 501},
		{"a body over an action's limit", off, "POST /api/actions/do HTTP/1.1\r\nHost: localhost\r\n" + auth + "Content-Length: 65537\r\n\r\n" + strings.Repeat("x", 65537), 400},
		{"a header in a header", off, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: y\rAuthorization: " + right + "\r\n\r\n", 400},
		{"a space before the colon", off, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization : " + right + "\r\n\r\n", 400},
	} {
		resp, body := raw(t, c.addr, c.text)
		if resp.StatusCode != c.want || strings.Contains(body, "private") {
			t.Errorf("%s: %d %.200s", c.name, resp.StatusCode, body)
		}
	}
	if *ran != 0 {
		t.Errorf("actions ran %d times", *ran)
	}
}

// Each request is authorized separately, whatever came before it on the connection.
func TestTokenIsNotOfTheConnection(t *testing.T) {
	_, token := tokenFile(t, secret)
	o, _ := everything(t, Access{Token: token})
	c := dialed(t, served(t, o), "GET /page.css HTTP/1.1\r\nHost: localhost\r\nAuthorization: "+right+"\r\n\r\n"+"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
	from := bufio.NewReader(c)
	for _, want := range []int{200, 401} {
		resp, _ := response(t, from, strconv.Itoa(want))
		if resp.StatusCode != want {
			t.Errorf("%d, not %d", resp.StatusCode, want)
		}
	}
}

// served returns the address of a server with these options.
func served(t *testing.T, o Options) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, done := New(o), make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
		<-done
	})
	return l.Addr().String()
}

func dialed(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text) // a refused request may not be read to its end
	return c
}

// raw sends bytes and returns the answer.
func raw(t *testing.T, addr, text string) (resp *http.Response, body string) {
	t.Helper()
	return response(t, bufio.NewReader(dialed(t, addr, text)), fmt.Sprintf("%.60q", text))
}

func response(t *testing.T, from *bufio.Reader, what string) (resp *http.Response, body string) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%s: %v", what, err)
	}
	return resp, string(text)
}
