package http

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// byDefault configures a gateway as without link.history in the configuration file, and lets it log to log.
func byDefault(log *testenv.Log) func(*Config) {
	return func(c *Config) {
		c.Link, c.UpstreamReads, c.Log = Default, nil, slog.New(slog.NewTextHandler(log, nil))
	}
}

// By default links are used when the upstream announces that it accepts them, and each client connection has its own.
func TestDefaultLinks(t *testing.T) {
	log := &testenv.Log{}
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(echo)), func(near, _ *Config) { byDefault(log)(near) })
	const clients = 3
	for i := range clients {
		c := client(t)
		before := near.stats.Snapshot().Total.Sealed
		testenv.Eventually(t, "something goes with history", func() bool {
			send(t, c, http.MethodPost, near.url, text)
			return near.stats.Snapshot().Total.Sealed > before
		})
		for round := range 5 {
			if resp, got := send(t, c, http.MethodPost, near.url, series(round), "Content-Type", "application/x-protobuf"); resp.StatusCode != 200 || !bytes.Equal(got, series(round)) {
				t.Errorf("%s, %d bytes", resp.Status, len(got))
			}
		}
		if n := near.common.lanes.Tally.Begun.Load(); n < uint64(i+1) {
			t.Errorf("%d sessions of %d clients", n, i+1)
		}
	}
	if n := log.Count("a gateway that accepts links"); n != 1 || near.common.links != nil {
		t.Errorf("the log says %d times that links are used, clients share them: %v\n%s", n, near.common.links != nil, log)
	}
	if log.Count("is no gateway") > 0 {
		t.Error(log)
	}
}

// By default an upstream that announces no links gets the requests that it would get without links, and nothing is
// logged about that.
func TestDefaultLinksWithServer(t *testing.T) {
	rules := []policy.MessageRule{{Name: "requests", Auto: true, Direction: policy.Request, MinSize: 64}}
	var lengths []int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lengths = append(lengths, r.ContentLength)
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
			return
		}
		echo(w, r)
	})
	server := startUpstream(t, handler)
	far := start(t, startUpstream(t, handler), func(c *Config) { c.UpstreamReads = nil }, rules...) // without peers
	for name, upstream := range map[string]string{"a server": server, "a gateway without peers": strings.TrimPrefix(far.url, "http://")} {
		logs := map[Sharing]*testenv.Log{Default: {}, PerClient: {}}
		for mode, log := range logs {
			near := start(t, upstream, func(c *Config) {
				byDefault(log)(c)
				c.Link = mode
			}, rules...)
			for range 3 {
				c := client(t)
				for _, path := range []string{"/", "/missing", "/again"} {
					_, _ = send(t, c, http.MethodGet, near.url+path, nil)
					if resp, got := send(t, c, http.MethodPost, near.url+path, text); path != "/missing" && !bytes.Equal(got, text) {
						t.Errorf("%s: %s, %d bytes", name, resp.Status, len(got))
					}
					if _, got, err := sendChunked(t, c, near.url+path, "application/x-protobuf", bytes.NewReader(text)); err != nil || path != "/missing" && !bytes.Equal(got, text) {
						t.Errorf("%s: %d bytes, %v", name, len(got), err)
					}
					if n := lengths[len(lengths)-1]; n >= 0 {
						t.Errorf("%s, mode %d: a body of unknown length was collected, and has %d bytes", name, mode, n)
					}
				}
			}
			if near.common.far.Accepts() || near.common.far.WasAnnounced() {
				t.Errorf("%s: links are used", name)
			}
		}
		if s := logs[Default].String(); s != "" {
			t.Errorf("%s: the log says\n%s", name, s)
		}
		if n := logs[PerClient].Count("is no gateway that accepts links"); n != 1 {
			t.Errorf("%s: if links are configured, the log says %d times that there are none", name, n)
		}
	}
}

// By default, too, fields that a server sends under names of gateways reach no client, and no link is opened because
// of them.
func TestDefaultLinksAndLyingServer(t *testing.T) {
	log := &testenv.Log{}
	near := start(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set(linkHeader, "99; no such version")
	})), byDefault(log), policy.MessageRule{Auto: true})
	c := client(t)
	for range 5 {
		if resp, _ := send(t, c, http.MethodPost, near.url, text); resp.Header.Get(linkHeader) != "" {
			t.Errorf("the client gets %v", resp.Header)
		}
	}
	if near.common.far.WasAnnounced() || log.String() != "" {
		t.Errorf("the server counts as a gateway: %v\n%s", near.common.far.WasAnnounced(), log)
	}
}
