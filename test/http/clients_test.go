package http

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/testenv"
)

// site is the server that the clients of these tests use.
func site() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/text", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
	m.HandleFunc("/echo", echo)
	m.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"strong"`)
		http.ServeContent(w, r, "file.txt", time.Unix(1_700_000_000, 0), bytes.NewReader(text))
	})
	m.HandleFunc("/weak", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `W/"weak"`)
		http.ServeContent(w, r, "weak.txt", time.Unix(1_700_000_000, 0), bytes.NewReader(text))
	})
	m.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/text", http.StatusFound) })
	m.HandleFunc("/status/", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/status/"))
		w.Header().Set("Retry-After", "3")
		http.Error(w, "as you wish", code)
	})
	m.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = w.Write(text)
	})
	m.HandleFunc("/trailers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = w.Write(text)
		w.Header().Set("X-Sum", "1")
	})
	m.HandleFunc("/events", events)
	m.HandleFunc("/die", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(text)
		panic(http.ErrAbortHandler)
	})
	m.HandleFunc("/unauthorized", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you", http.StatusUnauthorized) })
	return m
}

// echo sends back the decoded body and describes the request in headers.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	plain, err := decode(r.Header.Get("Content-Encoding"), body)
	if err != nil && len(body) > 0 {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("X-Seen", fmt.Sprint(r.Method, r.URL, r.Host == "", r.Header.Get("User-Agent"), r.Header.Get("Accept"), r.Header.Get("X-Forwarded-For"), r.Header.Get("Via"), r.Trailer))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(plain)
}

func events(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 3 {
		_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
		_ = http.NewResponseController(w).Flush()
	}
}

// compare runs a program directly and through a gateway and compares its output. In args, URL stands for
// the server's URL and SOCKET for the address of a WebSocket server.
func compare(t *testing.T, socket, name string, args ...string) {
	t.Helper()
	direct := serve(t, site())
	through := process(t, "http://"+direct).Addr
	socketThrough := socket
	if socket != "" {
		socketThrough = process(t, "http://"+socket).Addr
	}
	want := runOn(t, direct, socket, name, args)
	got := runOn(t, through, socketThrough, name, args)
	wanted, lines := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(wanted) < 10 || len(wanted) != len(lines) {
		t.Fatalf("%d lines direct, %d through\n%s", len(wanted), len(lines), got)
	}
	for i := range lines {
		if lines[i] != wanted[i] {
			t.Errorf("through: %s\ndirect:  %s", lines[i], wanted[i])
		}
	}
}

func runOn(t *testing.T, addr, socket, name string, args []string) string {
	t.Helper()
	own := make([]string, len(args))
	for i, a := range args {
		own[i] = strings.NewReplacer("URL", "http://"+addr, "SOCKET", socket).Replace(a)
	}
	out, err := exec.CommandContext(t.Context(), name, own...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, own, err, out)
	}
	return strings.ReplaceAll(string(out), addr, "ADDR")
}

// Python's HTTP clients, and WebSocket messages of every kind, behave the same through a gateway.
func TestPython(t *testing.T) {
	t.Parallel()
	python := testenv.Python(t, "python/requirements.txt")
	server, _ := filepath.Abs("python/socket_server.py")
	socket := testenv.Server(t, python, server, "PORT")
	compare(t, socket, python, "python/scenario.py", "URL", "ws://SOCKET")
}

// Node's clients behave the same through a gateway.
func TestNode(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	python := testenv.Python(t, "python/requirements.txt")
	server, _ := filepath.Abs("python/socket_server.py")
	socket := testenv.Server(t, python, server, "PORT")
	modules := "NODE_PATH=" + testenv.NodeModules(t, "node/package.json")
	compare(t, socket, "env", modules, testenv.Program(t, "node"), "node/scenario.cjs", "URL", "ws://SOCKET")
}

// An event is received when it was sent, not only when the next one is.
func TestEvents(t *testing.T) {
	next := make(chan struct{})
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}))
	g := process(t, "http://"+upstream)
	for _, kind := range []string{"text/event-stream", "application/x-ndjson"} {
		for _, two := range []bool{false, true} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.Addr+"/?type="+kind, nil)
			resp, err := client(two).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(resp.Body)
			for i := range 3 {
				if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("%q, %v", line, err)
				}
				next <- struct{}{}
			}
			_ = resp.Body.Close()
		}
	}
}

// gRPC works through a gateway for HTTP: calls, streams, and statuses, which are trailers.
func TestGRPC(t *testing.T) {
	s := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	l := listen(t)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	g := process(t, "h2c://"+l.Addr().String())
	conn, err := grpc.NewClient("passthrough:///"+g.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := grpc_health_v1.NewHealthClient(conn)
	long := strings.Repeat("x", 100_000)
	if r, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "down"}); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error(r, err)
	}
	if _, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: long}); status.Code(err) != codes.NotFound || status.Convert(err).Message() != "unknown service" {
		t.Error(err)
	}
	watch, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "down"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{grpc_health_v1.HealthCheckResponse_NOT_SERVING, grpc_health_v1.HealthCheckResponse_SERVING} {
		if r, err := watch.Recv(); err != nil || r.Status != want {
			t.Fatal(r, err)
		}
		h.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_SERVING)
	}
	_, err = c.List(t.Context(), &grpc_health_v1.HealthListRequest{})
	if err != nil {
		t.Error(err)
	}
}
