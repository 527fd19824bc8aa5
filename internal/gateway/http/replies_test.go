package http

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Replies are compressed if a rule says so, for clients that accept the coding.
func TestReplies(t *testing.T) {
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		}
		_, _ = w.Write(text)
	}))
	g := start(t, upstream, nil, repliesTo(t, "zstd-3"))
	quiet := start(t, upstream, nil, requestsTo(t, "zstd-3"))
	for _, c := range []struct{ to, accepts, want string }{
		{g.url + "/long", "gzip, zstd", "zstd"},
		{g.url + "/stream", "gzip, zstd", "zstd"},
		{g.url + "/long", "gzip", ""},
		{g.url + "/long", "zstd;q=0", ""},
		{g.url + "/long", "", ""},
		{quiet.url + "/long", "zstd", ""},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.to, nil)
		r.Header.Set("Accept-Encoding", c.accepts)
		resp := do(t, r)
		body, err := io.ReadAll(resp.Body)
		coding := resp.Header.Get("Content-Encoding")
		if err != nil || coding != c.want || !bytes.Equal(decoded(t, coding, body), text) {
			t.Errorf("%+v: %q, %v", c, coding, err)
		}
		if coding != "" && resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%+v: %v", c, resp.Header)
		}
	}
}

// Rules that change during an exchange apply from the next exchange on. The current one keeps its rules, for
// the reply too.
func TestRulesHoldForAnExchange(t *testing.T) {
	var g *rig
	none, err := policy.NewMessages(nil)
	if err != nil {
		t.Fatal(err)
	}
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.SetPolicy(none)
		_, _ = w.Write(text)
	}))
	g = start(t, upstream, nil, repliesTo(t, "zstd-3"))
	for _, want := range []string{"zstd", ""} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, nil)
		r.Header.Set("Accept-Encoding", "zstd")
		resp := do(t, r)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Header.Get("Content-Encoding") != want {
			t.Errorf("%q, want %q; %v", resp.Header.Get("Content-Encoding"), want, err)
		}
	}
}

// Replies whose exact bytes matter are not changed.
func TestRepliesThatStay(t *testing.T) {
	var header, value string
	status := 200
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(header, value)
		w.WriteHeader(status)
		if status != http.StatusNotModified {
			_, _ = w.Write(text)
		}
	}))
	g := start(t, upstream, nil, repliesTo(t, "zstd-3"))
	get := func(method string, headers ...string) *http.Response {
		r, _ := http.NewRequestWithContext(t.Context(), method, g.url, nil)
		r.Header.Set("Accept-Encoding", "zstd")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return do(t, r)
	}
	for header, value = range map[string]string{
		"Etag": `"strong"`, "Cache-Control": "no-transform", "Content-Encoding": "br", "Content-Type": "text/event-stream", "Content-Digest": "x",
	} {
		resp := get(http.MethodGet)
		if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, text) || resp.Header.Get(header) != value {
			t.Errorf("%s: %d bytes, %v", header, len(body), err)
		}
	}
	header, value = "Etag", `W/"weak"`
	if resp := get(http.MethodGet); resp.Header.Get("Content-Encoding") != "zstd" || resp.Header.Get("Etag") != value {
		t.Error(resp.Header)
	}
	if resp := get(http.MethodGet, "Range", "bytes=0-1"); resp.Header.Get("Content-Encoding") != "" {
		t.Error(resp.Header)
	}
	if resp := get(http.MethodHead); resp.Header.Get("Content-Encoding") != "" {
		t.Error(resp.Header)
	}
	status = http.StatusNotModified
	if resp := get(http.MethodGet); resp.StatusCode != status || resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Etag") != value {
		t.Error(resp.Status, resp.Header)
	}
	status = http.StatusInternalServerError
	if resp := get(http.MethodGet); resp.StatusCode != status || resp.Header.Get("Content-Encoding") != "" {
		t.Error(resp.Status, resp.Header)
	}
}

// When the reply begins, a request that was sent whole takes no memory any more: a long poll may take hours.
func TestRequestMemoryDuringReply(t *testing.T) {
	end := make(chan struct{})
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/poll" {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-end
		}
	}))
	t.Cleanup(func() { close(end) })
	budgets := map[string]*memory.Budget{"one": memory.NewBudget(64 << 20), "near": memory.NewBudget(64 << 20), "far": memory.NewBudget(64 << 20)}
	one := start(t, upstream, func(c *Config) { c.Requests, c.UpstreamReads = budgets["one"], []string{"zstd"} }, requestsTo(t, "zstd"))
	near, _ := startPair(t, upstream, func(near, far *Config) { near.Requests, far.Requests = budgets["near"], budgets["far"] })
	for _, g := range []*rig{one, near} {
		for _, chunked := range []bool{false, true} {
			c := client(t)
			if g == near {
				near.untilCarried(c)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/poll", bytes.NewReader(bytes.Repeat(text, 400)))
			if err != nil {
				t.Fatal(err)
			}
			if chunked { // and collected, as a message
				r.ContentLength = -1
				r.Header.Set("Content-Type", "application/x-protobuf")
			}
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
		}
	}
	for name, b := range budgets {
		testenv.Eventually(t, name+" holds nothing of the requests", func() bool { return b.InUse() == 0 })
	}
}
