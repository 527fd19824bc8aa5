package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// listening returns a server with a request timeout and frequent events, and its address.
func listening(t *testing.T, timeout time.Duration) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serving(t, l, timeout), "http://" + l.Addr().String()
}

func serving(t *testing.T, l net.Listener, timeout time.Duration) *Server {
	t.Helper()
	s := New(sampleOptions(t))
	s.events.interval = 10 * time.Millisecond
	s.http.ReadTimeout, s.http.WriteTimeout = timeout, timeout
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func listen(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, err := http.Get(url + "/api/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// nextEvent reads one event and returns its status.
func nextEvent(t *testing.T, r *bufio.Reader) (st Status) {
	t.Helper()
	var lines [3]string
	for i := range lines {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = line
	}
	doc, ok := strings.CutPrefix(lines[1], "data: ")
	if lines[0] != "event: status\n" || !ok || lines[2] != "\n" {
		t.Fatalf("not an event: %q", lines)
	}
	if err := json.Unmarshal([]byte(doc), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestEvents(t *testing.T) {
	s, url := listening(t, readTimeout)
	resp := listen(t, url)
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Error(kind)
	}
	r := bufio.NewReader(resp.Body)
	last := nextEvent(t, r)
	if last.Gateways[0].Name != "cache" {
		t.Errorf("%+v", last.Gateways)
	}
	for later := 0; later < 3; { // a late tick and the next one may carry the same event
		next := nextEvent(t, r)
		switch {
		case next.UptimeSeconds < last.UptimeSeconds:
			t.Fatalf("%v after %v", next.UptimeSeconds, last.UptimeSeconds)
		case next.UptimeSeconds > last.UptimeSeconds:
			later++
		}
		last = next
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error("cut off, not ended:", err)
	}
}

// An event stream may last longer than the timeout of requests.
func TestEventsOutlastTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		l := testenv.NewPipeListener()
		serving(t, l, timeout)
		c, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		r := bufio.NewReader(resp.Body)
		for began := time.Now(); time.Since(began) < 3*timeout; {
			nextEvent(t, r)
		}
	})
}

func TestListenersAreBounded(t *testing.T) {
	s, url := listening(t, readTimeout)
	var all []*http.Response
	for range maxListeners {
		resp := listen(t, url)
		nextEvent(t, bufio.NewReader(resp.Body))
		all = append(all, resp)
	}
	if resp := listen(t, url); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Error(resp.Status, resp.Header)
	}
	_ = all[0].Body.Close()
	testenv.Eventually(t, "one that goes leaves room", func() bool {
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		return s.events.listeners < maxListeners
	})
	nextEvent(t, bufio.NewReader(listen(t, url).Body))
}

// An event is made once for all connected pages.
func TestEventsAreShared(t *testing.T) {
	made := 0
	e := newEvents(func(time.Time) Status { made++; return Status{} })
	now := time.Now()
	for i, want := range []int{1, 1, 2} {
		if _, err := e.event(now.Add(time.Duration(i) * e.interval * 2 / 5)); err != nil || made != want {
			t.Error(i, made, err)
		}
	}
}

// Actions are listed only if clients can authenticate.
func TestActionsAreNamed(t *testing.T) {
	opts := sampleOptions(t)
	opts.Actions = []Action{{Name: "pack-pause", Run: func() error { return nil }}}
	for _, credentials := range []bool{false, true} {
		opts.Access.Credentials = credentials
		if got := New(opts).status(time.Now()).Actions; (len(got) == 1) != credentials || got == nil {
			t.Errorf("with credentials %v: %q", credentials, got)
		}
	}
}
