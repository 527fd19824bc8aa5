package grpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// partsOf holds the parts of a gateway that change messages, without the gateway.
type partsOf struct {
	t      *testing.T
	budget *memory.Budget
	open   *decompressor
	comp   *compressor
}

func newParts(t *testing.T, budget int64) *partsOf {
	p := &partsOf{t: t, budget: memory.NewBudget(budget)}
	codecs := grpccodec.NewSet(grpccodec.Options{})
	p.open = newDecompressor(1<<20, codecs, nil)
	p.comp = &compressor{cache: NewCache(codecs), kinds: sampled.NewMessages(0), maxLen: 1 << 20}
	return p
}

// patient is a flow that is not cut off.
type patient struct{}

func (patient) Progress() int64         { return 0 }
func (patient) Patience() time.Duration { return time.Hour }
func (patient) Cut(memory.StallReason)  {}

// rewriter returns a rewriter for a call of its own.
func (p *partsOf) rewriter(ctx context.Context, body []byte, plan plan) *rewriter {
	w := newRewriter(ctx, bytes.NewReader(body), plan, false, p.open, p.comp)
	w.grant.Account.Open(p.budget.Share("test").Client(nil), patient{})
	p.t.Cleanup(w.close)
	return w
}

func (p *partsOf) idle() {
	p.t.Helper()
	if n := p.budget.InUse(); n != 0 || len(p.open.ahead) != 0 {
		p.t.Errorf("%d bytes and %d tokens are held", n, len(p.open.ahead))
	}
}

// A message is decompressed for a next hop that reads no compression, and recompressed with an encoding that
// it reads.
func TestRewriterRecodes(t *testing.T) {
	p := newParts(t, 1<<20)
	message := payload(5000)
	packed := frame(true, pack(t, "gzip", message))
	plain, err := io.ReadAll(p.rewriter(t.Context(), packed, planFor("gzip", "", nil)))
	if err != nil || !bytes.Equal(plain, frame(false, message)) {
		t.Fatalf("%d bytes, %v", len(plain), err)
	}
	rules := rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1")}).Rules()
	again, err := io.ReadAll(p.rewriter(t.Context(), packed, planFor("gzip", "zstd", rules)))
	if err != nil || again[0] != 1 {
		t.Fatal(err)
	}
	if back, err := io.ReadAll(p.rewriter(t.Context(), again, planFor("zstd", "", nil))); err != nil || !bytes.Equal(back, plain) {
		t.Fatalf("%d bytes, %v", len(back), err)
	}
	p.idle()
}

// A message that decompresses to more than its budget goes ahead, one at a time.
func TestOneMessageGoesAhead(t *testing.T) {
	p := newParts(t, 32<<10)
	packed := frame(true, pack(t, "zstd", make([]byte, 500_000)))
	first := p.rewriter(t.Context(), packed, planFor("zstd", "", nil))
	if _, err := first.Read(make([]byte, 10)); err != nil || !first.grant.IsUnbudgeted() {
		t.Fatal("not ahead", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second := p.rewriter(ctx, packed, plan{})
	if err := second.grant.AcquireBeyond(1 << 20); !errors.Is(err, context.Canceled) {
		t.Error("two are ahead", err)
	}
	if rest, err := io.ReadAll(first); err != nil || len(rest) != 500_000-5 {
		t.Error(len(rest), err)
	}
	next := p.rewriter(t.Context(), packed, plan{})
	if err := next.grant.AcquireBeyond(1 << 20); err != nil || !next.grant.IsUnbudgeted() {
		t.Error("the next did not get its turn", err)
	}
	next.free()
	p.idle()
}

// A meter counts and samples the messages of a method and direction, if they are measured.
func TestMeter(t *testing.T) {
	kinds, samples := sampled.NewMessages(0), &sampled.Samples{}
	for _, m := range []*meter{{kinds: kinds}, {kinds: kinds, measured: &measuring{"/a/B", policy.Reply, samples}}} {
		m.observeSent([]byte("message"))
		m.countUnchanged(1 << 30)
		m.countCompressed(5)
		m.sampleReceived([]byte("received"), "")
		m.countReceived(1 << 20)
		wants, counts := m.shouldRead(100) && m.shouldSample(100), []int{len(kinds.Status()), samples.Bytes()}
		if measured := m.measured != nil; wants != measured || (counts[0] == 1) != measured || (counts[1] > 0) != measured {
			t.Errorf("measured: %v; messages are read: %v; kinds and bytes: %v", measured, wants, counts)
		}
		if m.shouldSample(sampled.MaxMessage + 1) {
			t.Error("too long messages are sampled")
		}
	}
	if s := kinds.Status()[0]; s.Method != "/a/B" || s.Direction != "reply" || s.Messages != 2 || s.Compressed != 1 || s.SampleMessages != 1 {
		t.Errorf("%+v", s)
	}
}

// callFrom returns a call's request with the given headers.
func callFrom(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/service/Method", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// TestNegotiatedRequests checks which encoding messages to a server get, by what the client sends, what a
// rule wants and what the server has announced.
func TestNegotiatedRequests(t *testing.T) {
	silent := func() *serverCapabilities { return newServerCapabilities(nil, false, &link.Support{}) }
	says := func(list string) *serverCapabilities {
		k := silent()
		k.recordList([]string{list})
		return k
	}
	rules := rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1")})
	for _, c := range []struct {
		name     string
		rules    *policy.Messages
		from     []string
		server   *serverCapabilities
		to, asks string
	}{
		{"no rule", rulesOf(t), nil, says("zstd"), "", ""},
		{"an unknown server", rules, nil, silent(), "", "zstd"},
		{"a server that reads it", rules, nil, says("gzip,zstd"), "zstd", ""},
		{"a server that reads none", rules, nil, says("identity"), "", ""},
		{"the client's own, to an unknown server", rules, []string{"Grpc-Encoding", "gzip"}, silent(), "gzip", "zstd"},
		{"the client's own, which no server reads", rules, []string{"Grpc-Encoding", "gzip"}, says("identity"), "", ""},
		{"one that we can't open", rules, []string{"Grpc-Encoding", "strange"}, says("zstd"), "strange", ""},
		{"a gateway's, to an unknown server", rulesOf(t), []string{"Grpc-Encoding", "s2", "Grpc-Accept-Encoding", "cinch"}, silent(), "", "s2"},
	} {
		n, ok := (&handler{shared: inForce(c.rules)}).negotiate(callFrom(c.from...))
		if !ok {
			t.Errorf("%s: refused", c.name)
		}
		p := n.planRequest(c.server)
		if p.to != c.to {
			t.Errorf("%s: %q", c.name, p.to)
		}
		if asks := strings.Join(p.undecided, ","); asks != c.asks {
			t.Errorf("%s: it is asked for %q", c.name, asks)
		}
	}
}

// inForce returns the state of calls under the given rules.
func inForce(rules *policy.Messages) *shared {
	s := &shared{policy: &atomic.Pointer[policy.Messages]{}}
	s.policy.Store(rules)
	return s
}

// Only a gateway hears that this one accepts links, if it does. What an upstream says of itself is not passed on.
func TestLinksAreAnnounced(t *testing.T) {
	for _, c := range []struct {
		client, upstream string
		accepts          bool
		want             string
	}{
		{"gzip", "", true, ""},
		{"gzip", "identity,gzip", true, "identity,gzip"},
		{"gzip,cinch-link", "", true, ""},
		{"gzip", "gzip,cinch,zstd,cinch-link", true, "gzip"},
		{"gzip,cinch", "", true, "cinch," + strings.Join(ownNames, ",") + ",cinch-link"},
		{"gzip,cinch", "", false, "cinch," + strings.Join(ownNames, ",")},
		{"gzip,cinch", "lz4,cinch,zstd,cinch-link", false, "lz4,cinch," + strings.Join(ownNames, ",")},
	} {
		s := inForce(rulesOf(t))
		s.acceptsLinks = c.accepts
		n, _ := (&handler{shared: s}).negotiate(callFrom("Grpc-Accept-Encoding", c.client))
		p := n.planReply("")
		h := http.Header{}
		if c.upstream != "" {
			h.Set("Grpc-Accept-Encoding", c.upstream)
		}
		n.editResponseHeader(h, &p)
		if got := h.Get("Grpc-Accept-Encoding"); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Facts that several connections find out are logged once.
func TestNotices(t *testing.T) {
	var b strings.Builder
	n := newOnceLogger(slog.New(slog.NewTextHandler(&b, nil)), "there")
	if !n.unreadEncoding("zstd") || n.unreadEncoding("zstd") || !n.unreadEncoding("s2") {
		t.Error("not once for each encoding")
	}
	n.probeUnavailable()
	n.probeUnavailable()
	n.refusedEncoding("zstd")
	if lines := strings.Count(b.String(), "\n"); lines != 4 {
		t.Errorf("%d lines:\n%s", lines, &b)
	}
}

// A connection that was given up explains why its calls failed, and counts what arrived until then.
func TestGivenUpHop(t *testing.T) {
	h := &upstreamConn{}
	if err := h.explain(io.EOF); err != io.EOF {
		t.Error(err)
	}
	h.givenUp.Store(true)
	b := countedBody{strings.NewReader("x"), h}
	if n, err := b.Read(make([]byte, 10)); n != 1 || err != nil || h.received.Load() != 1 {
		t.Error(n, err)
	}
	if err := h.explain(io.ErrUnexpectedEOF); err != errSilent {
		t.Error(err)
	}
}
