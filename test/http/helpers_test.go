package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	gatewayhttp "github.com/cinch-layer/cinch/internal/gateway/http"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

var long = flag.Bool("http.long", false, "longer forms of what is tested anyway")

// TestMain runs four tests at a time, since they spend most of their time waiting.
func TestMain(m *testing.M) {
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == set.DefValue {
		_ = set.Value.Set("4")
	}
	os.Exit(m.Run())
}

// Settings and rules of gateways that change every body that they may.
const (
	anyCoding = "upstream_encodings: [zstd, gzip, snappy]"
	everyBody = "- {name: requests, direction: request, min_size: 64, setting: zstd-3}\n- {name: replies, direction: reply, min_size: 64, setting: auto}"
)

// process starts `cinch serve` in front of an upstream, given as a URL. It changes every body that it may.
func process(t testing.TB, upstream string) *testenv.GatewayServer {
	t.Helper()
	return testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: upstream, Settings: anyCoding, Rules: everyBody})
}

// inside runs a gateway in this process in front of an upstream, host:port. It compresses bodies of at
// least from bytes with zstd; -1: none.
func inside(t testing.TB, upstream string, from int) (addr string) {
	t.Helper()
	addr, _ = start(t, upstream, zstdFrom(t, from), gatewayhttp.Config{UpstreamReads: []string{"zstd"}})
	return addr
}

// paired runs two gateways in this process that share one history for all bodies. It returns when the
// history is in use.
func paired(t testing.TB, upstream string) (addr string) {
	t.Helper()
	links := &link.Config{Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
	far, _ := start(t, upstream, zstdFrom(t, -1), gatewayhttp.Config{Peers: true, Links: links})
	all, err := policy.NewMessages([]policy.MessageRule{{Name: "all", Auto: true}})
	if err != nil {
		t.Fatal(err)
	}
	near, stats := start(t, far, all, gatewayhttp.Config{Link: gatewayhttp.Shared, Links: links})
	for range 200 {
		resp, err := client(false).Post("http://"+near+"/warm", "text/plain", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if stats.Snapshot().Total.Sealed > 0 {
			return near
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("no history between two gateways")
	return ""
}

// start runs a gateway in this process in front of an upstream, with rules and further configuration c.
func start(t testing.TB, upstream string, rules *policy.Messages, c gatewayhttp.Config) (addr string, stats *gateway.Stats) {
	t.Helper()
	up, err := endpoint.ParseUpstream("http://"+upstream, "80")
	if err != nil {
		t.Fatal(err)
	}
	c.Name, c.Upstream, c.MaxCompress, c.MaxOpen = "test", up, 32<<20, 32<<20
	c.Requests, c.Replies, c.Stats = memory.NewBudget(64<<20), memory.NewBudget(64<<20), gateway.NewStats("test", "http")
	c.Log = slog.New(slog.DiscardHandler)
	g := gatewayhttp.NewGateway(c)
	g.SetPolicy(rules)
	l := listen(t)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = g.Shutdown(ctx)
	})
	return l.Addr().String(), c.Stats
}

func zstdFrom(t testing.TB, size int) *policy.Messages {
	t.Helper()
	setting, err := codec.ParseSetting("zstd-1")
	if err != nil {
		t.Fatal(err)
	}
	var rules []policy.MessageRule
	if size >= 0 {
		rules = []policy.MessageRule{{Name: "all", Setting: setting, MinSize: size}}
	}
	p, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve runs a server of the standard library, for HTTP/1.1 and HTTP/2 without TLS.
func serve(t testing.TB, h http.Handler) (addr string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// decode removes the content coding from a body.
func decode(coding string, b []byte) ([]byte, error) {
	var r io.Reader = bytes.NewReader(b)
	var err error
	switch coding {
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(r); err == nil {
			defer z.Close()
			r = z
		}
	case "gzip":
		r, err = gzip.NewReader(r)
	case "snappy":
		return snappy.Decode(nil, b)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zstded(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

var text = []byte(strings.Repeat("What goes over the wire costs money. ", 400))
