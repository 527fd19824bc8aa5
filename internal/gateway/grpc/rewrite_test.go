package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

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

// A message that decompresses to more than the budget goes ahead without budget, one at a time.
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

// A response with a content-length is recoded, too.
func TestContentLengthOfReplies(t *testing.T) {
	body := frame(true, pack(t, "gzip", payload(5000)))
	server := startRaw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	for _, rule := range []string{"", "raw"} {
		g := startGateway(t, "grpc://"+server, nil)
		want := body
		if rule != "" {
			g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, rule)}))
			want = frame(false, payload(5000))
		}
		code, message, out := post(t, rawClient(t, g.addr), "Any", strings.NewReader(""), "Grpc-Accept-Encoding", "gzip")
		if code != "0" || !bytes.Equal(out, want) {
			t.Errorf("rule %q: %s %q, %d bytes", rule, code, message, len(out))
		}
	}
}

// If memory runs out within a message, the message is sent plain and whole.
func TestNoMemory(t *testing.T) {
	server := startServer(t, echo)
	for _, size := range []int64{1, 100 << 10, 300 << 10, 1 << 20} {
		g := startGateway(t, "grpc://"+server, func(c *Config) {
			c.UpstreamReads = []string{"zstd"}
			c.Requests, c.Replies = memory.NewBudget(size), memory.NewBudget(size)
		})
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
		c := connect(t, g.addr)
		for range 3 {
			mustEcho(t, c, payload(1<<20))
			mustEcho(t, c, payload(1000))
		}
		testenv.Eventually(t, "budgets", func() bool { return g.cfg.Requests.InUse() == 0 && g.cfg.Replies.InUse() == 0 })
	}
}

// FuzzBody feeds bodies to the rewriter: it returns the same as the codecs, or an error, and never uses more
// memory than allowed.
func FuzzBody(f *testing.F) {
	f.Add(frame(true, []byte("x")), "zstd", "")
	f.Add(append(frame(true, pack(f, "s2", payload(300))), frame(false, payload(100))...), "s2", "zstd")
	f.Add([]byte{0, 0, 0, 0}, "gzip", "")
	f.Add(frame(true, hugeWindow()), "zstd", "lz4")
	g := NewGateway(Config{Name: "fuzz", MaxOpen: 1 << 20, MaxCompress: 1 << 20})
	f.Fuzz(func(t *testing.T, body []byte, from, to string) {
		if len(body) > 1<<16 || from != "" && !canOpen(from) || to != "" && !canOpen(to) {
			return
		}
		rule := policy.MessageRule{Setting: set(t, "raw")}
		if to != "" {
			rule.Setting = set(t, to)
		}
		p := planFor(from, to, rulesOf(t, rule).Rules())
		budget := memory.NewBudget(64 << 20)
		w := newRewriter(context.Background(), bytes.NewReader(body), p, false, g.shared.decompressor, g.shared.compressor)
		w.grant.Account.Open(budget.Share("g").Client(nil), nil)
		out, err := io.ReadAll(w)
		w.free()
		if budget.InUse() != 0 {
			t.Fatalf("%d bytes of the budget were kept", budget.InUse())
		}
		if err != nil {
			return
		}
		before, whole := messages(t, body, from)
		after, _ := messages(t, out, to)
		if whole && !bytes.Equal(before, after) {
			t.Fatalf("%d bytes of messages became %d", len(before), len(after))
		}
	})
}

// messages joins the messages of a body, each preceded by its length.
func messages(t *testing.T, body []byte, encoding string) (all []byte, whole bool) {
	codecs := grpccodec.NewSet(grpccodec.Options{})
	for len(body) >= wire.HeaderLen {
		h, err := wire.ParseHeader(body)
		body = body[wire.HeaderLen:]
		if err != nil || int64(h.Len) > int64(len(body)) {
			return all, false
		}
		m := body[:h.Len]
		body = body[h.Len:]
		if h.Compressed {
			if m, err = codecs.AppendDecompress(nil, m, encoding, 1<<20); err != nil {
				return all, false
			}
		}
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(m))), m...)
	}
	return all, len(body) == 0
}
