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

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/peer/pair"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// partsOf holds the parts of a gateway that change messages, without the gateway.
type partsOf struct {
	t      *testing.T
	totals pair.Totals
	budget *memory.Budget
	open   *decompressor
	comp   *compressor
}

func newParts(t *testing.T, budget int64) *partsOf {
	p := &partsOf{t: t, budget: memory.NewBudget(budget)}
	codecs, engine := grpccodec.NewSet(grpccodec.Options{}), codec.New(codec.Options{})
	p.open = newDecompressor(1<<20, codecs, engine, nil, &p.totals)
	p.comp = &compressor{
		cache: NewCache(codecs), engine: engine, kinds: dictionary.NewMessages(dictionary.MessagesOptions{}),
		totals: &p.totals, maxLen: 1 << 20,
	}
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

// If a message names a missing dictionary, the call may begin again as long as nothing of it has been
// forwarded.
func TestMissingDictionary(t *testing.T) {
	p := newParts(t, 1<<20)
	d := someDict(t, 1)
	unknown := frame(true, compressedWith(t, d, payload(300)))
	pl := plan{from: pairEncoding, pair: &pairing{prev: &fetched{}}}
	for before, clean := range map[string]bool{"": true, string(frame(false, []byte("x"))): false} {
		w := p.rewriter(t.Context(), append([]byte(before), unknown...), pl)
		_, err := io.ReadAll(w)
		w.close()
		var missing *missingError
		if !errors.As(err, &missing) || missing.number != d.Number() || missing.clean != clean {
			t.Errorf("%v, after %d bytes", err, len(before))
		}
	}
	pl.pair.prev = &fetched{dicts: []*codec.Dict{d}}
	if out, err := io.ReadAll(p.rewriter(t.Context(), unknown, pl)); err != nil || !bytes.Equal(out, frame(false, payload(300))) {
		t.Error(err)
	}
	p.idle()
}

// has is a receiver with one dictionary.
type has struct{ *codec.Dict }

func (h has) has(d *codec.Dict) bool { return h.Dict == d }

// The meter returns a rule's dictionary when the receiver has it. Messages that are compressed without it
// meanwhile do not count.
func TestMeterAndDictionaries(t *testing.T) {
	d, other := someDict(t, 1), someDict(t, 2)
	rule := &policy.MessageRule{Name: "r", Setting: set(t, "zstd-3"), Dict: d}
	for _, c := range []struct {
		pair    *pairing
		bytes   int
		want    *codec.Dict
		settled bool
	}{
		{nil, 100, nil, true},
		{&pairing{}, 100, nil, true},
		{&pairing{next: has{d}}, 100, d, true},
		{&pairing{next: has{other}}, 100, nil, false},
		{&pairing{next: has{other}}, dictionary.MaxMessageSample, nil, false},
		{&pairing{next: has{d}}, dictionary.MaxMessageSample + 1, nil, true},
	} {
		m := meter{pair: c.pair}
		if got, _, settled := m.dictFor(rule, c.bytes); got != c.want || settled != c.settled {
			t.Errorf("%+v, %d bytes: %v, %v", c.pair, c.bytes, got, settled)
		}
	}
	watched := meter{kinds: dictionary.NewMessages(dictionary.MessagesOptions{}), pair: &pairing{method: "/a/B", watch: true}}
	watched.observeSent(nil, []byte("message"), 3)
	watched.countUnchanged(nil, 1<<30)
	watched.countCompressed(5)
	if status := watched.kinds.Status(); len(status) != 1 {
		t.Errorf("%+v", status)
	}
}

// A compressor uses the dictionary that the meter returns, and counts it.
func TestCompressorWithDictionary(t *testing.T) {
	p := newParts(t, 1<<20)
	d := someDict(t, 1)
	rule := policy.MessageRule{Name: "r", Setting: set(t, "zstd-3"), Dict: d}
	pl := plan{to: pairEncoding, rules: rulesOf(t, rule).Rules(), pair: &pairing{next: has{d}}}
	out, err := io.ReadAll(p.rewriter(t.Context(), frame(false, payload(300)), pl))
	if err != nil || p.totals.Messages.Compressed.Load() != 1 {
		t.Fatalf("%v, %d messages", err, p.totals.Messages.Compressed.Load())
	}
	back := plan{from: pairEncoding, pair: &pairing{prev: &fetched{dicts: []*codec.Dict{d}}}}
	if in, err := io.ReadAll(p.rewriter(t.Context(), out, back)); err != nil || !bytes.Equal(in, frame(false, payload(300))) {
		t.Error(err)
	}
	p.idle()
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
	silent := func() *serverCapabilities { return newServerCapabilities(nil, false, &link.Support{}, nil) }
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

func knows(p *peer, d *codec.Dict) bool {
	_, err := p.Dictionary(d.Number())
	return err == nil
}

// Only a client that is a gateway may use the private encoding, and only one that lists it is answered in it.
func TestNegotiatedDictionaries(t *testing.T) {
	d := someDict(t, 1)
	rules := rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-3"), Dict: d})
	var total pair.Totals
	s := inForce(rules)
	dicts := newDictionaries(s.policy, dictionary.NewMessages(dictionary.MessagesOptions{}), &total)
	m := memory.NewConnMemory(nil, memory.NewBudget(1<<20).Share("a").Client(nil), memory.NewBudget(1<<20).Share("a").Client(nil))
	s.dicts = dicts
	p := newPeer(dicts, m, false)
	negotiate := func(p *peer, headers ...string) (*terms, bool) {
		return (&handler{shared: s, peer: p}).negotiate(callFrom(headers...))
	}
	if _, ok := negotiate(nil, "Grpc-Encoding", pairEncoding); ok {
		t.Error("any client may use the private encoding")
	}
	if _, ok := negotiate(p, "Grpc-Encoding", pairEncoding); !ok {
		t.Error("a gateway may not use the private encoding")
	}
	list := gatewayToken + "," + pairEncoding
	for _, c := range []struct {
		headers       []string
		to, offered   string
		hasDictionary bool
	}{
		{[]string{"Grpc-Accept-Encoding", pairEncoding}, "", "", false},
		{[]string{"Grpc-Accept-Encoding", list}, pairEncoding, hexHash(d.Hash()), false},
		{[]string{"Grpc-Accept-Encoding", list, heldHeader, wire.FormatIDs([]wire.ID{wire.IDOf(d.Hash())})}, pairEncoding, "", true},
	} {
		n, _ := negotiate(p, c.headers...)
		pl := n.planReply("", nil)
		h := http.Header{}
		n.editResponseHeader(h, &pl)
		if pl.to != c.to || h.Get(offerHeader) != c.offered || (pl.pair != nil && pl.pair.next.has(d)) != c.hasDictionary {
			t.Errorf("%q: to %q, offered %q", c.headers, pl.to, h.Get(offerHeader))
		}
	}
}

// A peer's dictionaries are found by number until its connection ends. They are limited by the connection's
// memory.
func TestPeerWithoutServer(t *testing.T) {
	var total pair.Totals
	var none atomic.Pointer[policy.Messages]
	dicts := newDictionaries(&none, dictionary.NewMessages(dictionary.MessagesOptions{}), &total)
	budget := memory.NewBudget(1 << 20)
	m := memory.NewConnMemory(nil, budget.Share("a").Client(nil), memory.NewBudget(1<<20).Share("a").Client(nil))
	p := newPeer(dicts, m, false)
	put := func(p *peer, d *codec.Dict) string {
		r := httptest.NewRequest(http.MethodPost, putPath, bytes.NewReader(carried(d)))
		r.Header.Set("Content-Type", "application/grpc")
		w := httptest.NewRecorder()
		p.serve(w, r)
		return w.Header().Get("Grpc-Status") + w.Header().Get(http.TrailerPrefix+"Grpc-Status")
	}
	d := someDict(t, 1)
	if s := put(nil, d); s != statusOf(codeUnimplemented) {
		t.Errorf("a client that is no gateway: %s", s)
	}
	if s := put(p, d); s != "0" || !knows(p, d) || total.Dicts.Received.Load() != 1 {
		t.Errorf("status %s", s)
	}
	for i := range maxPeerDicts {
		put(p, someDict(t, 2+i))
	}
	if knows(p, d) || dicts.shelf.Len() != maxPeerDicts {
		t.Errorf("%d are kept", dicts.shelf.Len())
	}
	p.close()
	if s := put(p, d); s != statusOf(codeUnavailable) || dicts.shelf.Len() != 0 || budget.InUse() != 0 {
		t.Errorf("after its end: %s, %d dictionaries, %d bytes", s, dicts.shelf.Len(), budget.InUse())
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
