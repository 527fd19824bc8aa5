package grpc

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// tell makes a call between gateways, with a body as it is.
func tell(t testing.TB, c *http.Client, path string, body io.Reader) (status string, answer []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://test"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if s := resp.Header.Get("Grpc-Status"); s != "" {
		return s, answer
	}
	return resp.Trailer.Get("Grpc-Status"), answer
}

func statusOf(c code) string { return strconv.Itoa(int(c)) }

// someDict is a dictionary of raw content, another one for each i.
func someDict(t testing.TB, i int) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict(fmt.Appendf(nil, "a dictionary of raw content, number %d: %s", i, payload(300)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func carried(d *codec.Dict) []byte {
	return frame(false, wire.AppendDictionary(nil, d.Hash(), d.Content()))
}

// compressedWith is a message of the private encoding.
func compressedWith(t testing.TB, d *codec.Dict, m []byte) []byte {
	t.Helper()
	out, err := codec.New(codec.Options{}).Compress(wire.AppendPaired(nil, d.Number()), m, codec.Setting{Codec: codec.Zstd, Level: 3, Dict: d.Number()}, d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Ordinary clients can't speak as gateways do, and nothing of it reaches the upstream: not
// through a gateway that has peers behind it either.
func TestOrdinaryClientsAreNoPeers(t *testing.T) {
	reached := make(chan string, 100)
	server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		reached <- r.URL.Path + r.Header.Get("Grpc-Encoding")
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "0")
	})
	far := startGateway(t, "grpc://"+server, asPeer)
	near := startGateway(t, "grpc://"+far.addr, nil)
	near.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	d := someDict(t, 1)
	c := rawClient(t, near.addr)
	for _, path := range []string{putPath, getPath, pairPaths + "Other", pairPaths} {
		if got, _ := tell(t, c, path, bytes.NewReader(carried(d))); got != statusOf(codeUnimplemented) {
			t.Errorf("%s: status %s", path, got)
		}
	}
	body := frame(true, compressedWith(t, d, payload(300)))
	got, message, _ := post(t, c, "Any", bytes.NewReader(body), "Grpc-Encoding", pairEncoding, "Grpc-Accept-Encoding", "cinch,cinch-zstd")
	if got != statusOf(codeUnimplemented) {
		t.Errorf("status %s, %s", got, message)
	}
	if len(reached) > 0 || far.pairs.Dicts.Received.Load() > 0 {
		t.Errorf("%s got through", <-reached)
	}
}

// A hostile peer gets errors for what is no dictionary, and nothing of it is held.
func TestHostileDictionaries(t *testing.T) {
	far := startGateway(t, "grpc://"+startServer(t, echo), asPeer)
	c := rawClient(t, far.addr)
	good := carried(someDict(t, 0))
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	long := make([]byte, maxPairDict+1)
	trained := append([]byte("\x37\xa4\x30\xec"), payload(100)...) // says that it is, and is not
	for name, body := range map[string]io.Reader{
		"nothing":        bytes.NewReader(nil),
		"half a header":  bytes.NewReader(good[:3]),
		"cut off":        bytes.NewReader(good[:len(good)-1]),
		"compressed":     bytes.NewReader(append([]byte{1}, good[1:]...)),
		"wrong flag":     bytes.NewReader(append([]byte{9}, good[1:]...)),
		"another hash":   bytes.NewReader(damaged),
		"no content":     bytes.NewReader(frame(false, make([]byte, wire.HashLen))),
		"too long":       bytes.NewReader(frame(false, wire.AppendDictionary(nil, sha256.Sum256(long), long))),
		"declares 4 GiB": bytes.NewReader([]byte("\x00\xff\xff\xff\xff")),
		"tables damaged": bytes.NewReader(frame(false, wire.AppendDictionary(nil, sha256.Sum256(trained), trained))),
	} {
		if got, _ := tell(t, c, putPath, body); got == "0" || got == "" {
			t.Errorf("%s: status %q", name, got)
		}
	}
	if far.shared.dicts.shelf.Bytes() != 0 || far.pairs.Dicts.Received.Load() != 0 {
		t.Errorf("%d bytes are held", far.shared.dicts.shelf.Bytes())
	}
	if got, _ := tell(t, c, getPath, bytes.NewReader(frame(false, make([]byte, wire.HashLen)))); got != statusOf(codeNotFound) {
		t.Errorf("status %s", got)
	}
}

// It gets no more memory than is allowed, and no longer than it is there.
func TestHostilePeer(t *testing.T) {
	far := startGateway(t, "grpc://"+startServer(t, echo), asPeer)
	c := rawClient(t, far.addr)
	for i := range 3 * maxPeerDicts {
		if got, _ := tell(t, c, putPath, bytes.NewReader(carried(someDict(t, i)))); got != "0" {
			t.Fatalf("dictionary %d: status %s", i, got)
		}
	}
	if n := far.shared.dicts.shelf.Len(); n != maxPeerDicts {
		t.Errorf("%d dictionaries are held", n)
	}
	use := func(m []byte) (string, string) {
		status, message, _ := post(t, c, "Unary", bytes.NewReader(frame(true, m)), "Grpc-Encoding", pairEncoding)
		return status, message
	}
	last := someDict(t, 3*maxPeerDicts-1)
	m := compressedWith(t, last, payload(300))
	if got, text := use(m); got != "0" {
		t.Errorf("a good message: status %s, %s", got, text)
	}
	if got, _ := use(compressedWith(t, someDict(t, 0), payload(300))); got != statusOf(codeUnavailable) {
		t.Errorf("a dictionary that had to go: status %s", got)
	}
	bomb := append(wire.AppendPaired(nil, last.Number()), 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0)
	if got, _ := use(bomb); got != statusOf(codeResourceExhausted) {
		t.Errorf("a declared length of 2^62: status %s", got)
	}
	for _, bad := range [][]byte{{}, m[:3], m[:4], m[:len(m)-1], append(bytes.Clone(m), 0), bytes.Repeat([]byte{0}, 50)} {
		if got, text := use(bad); got != statusOf(codeInternal) {
			t.Errorf("%x: status %s, %s", bad, got, text)
		}
	}
	testenv.Eventually(t, "nothing outlives the connection", func() bool {
		c.CloseIdleConnections() // once its last stream has ended for the client too
		return far.shared.dicts.shelf.Bytes()+far.shared.dicts.shelf.Len() == 0
	})
}

// One connection's dictionaries mean nothing on another, and all together are bounded.
func TestPeersAreApart(t *testing.T) {
	server := startServer(t, echo)
	far := startGateway(t, "grpc://"+server, asPeer)
	one, other := rawClient(t, far.addr), rawClient(t, far.addr)
	d := someDict(t, 1)
	if got, _ := tell(t, one, putPath, bytes.NewReader(carried(d))); got != "0" {
		t.Fatal(got)
	}
	body := frame(true, compressedWith(t, d, payload(300)))
	if got, _, _ := post(t, other, "Unary", bytes.NewReader(body), "Grpc-Encoding", pairEncoding); got != statusOf(codeUnavailable) {
		t.Errorf("status %s", got)
	}
	for room := shelfLimits.Bytes - far.shared.dicts.shelf.Bytes(); room >= codec.MinDictLen; room = shelfLimits.Bytes - far.shared.dicts.shelf.Bytes() {
		content := make([]byte, min(room, codec.MaxDictLen)) // others have the rest
		binary.LittleEndian.PutUint32(content[4:], uint32(room))
		big, err := codec.NewDict(content)
		if err != nil || far.shared.dicts.shelf.Add(big) == nil {
			t.Fatal("no room", err)
		}
	}
	if got, _ := tell(t, other, putPath, bytes.NewReader(carried(someDict(t, 2)))); got != statusOf(codeResourceExhausted) {
		t.Errorf("status %s", got)
	}
	if got, _ := tell(t, other, putPath, bytes.NewReader(carried(d))); got != "0" { // there already
		t.Errorf("status %s", got)
	}
}

// A dictionary of replies goes to a connection once, and only one that is in use.
func TestGetOnce(t *testing.T) {
	far := startGateway(t, "grpc://127.0.0.1:1", asPeer)
	d := someDict(t, 1)
	far.SetPolicy(rulesOf(t, policy.MessageRule{Direction: policy.Reply, Setting: set(t, "zstd-1"), Dict: d}))
	hash := d.Hash()
	for range 2 {
		c := rawClient(t, far.addr)
		got, answer := tell(t, c, getPath, bytes.NewReader(frame(false, hash[:])))
		if got != "0" || !bytes.Equal(answer, carried(d)) {
			t.Errorf("status %s, %d bytes", got, len(answer))
		}
		if got, answer := tell(t, c, getPath, bytes.NewReader(frame(false, hash[:]))); got != statusOf(codeResourceExhausted) || len(answer) > 0 {
			t.Errorf("again: status %s, %d bytes", got, len(answer))
		}
	}
	requests := rulesOf(t, policy.MessageRule{Direction: policy.Request, Setting: set(t, "zstd-1"), Dict: d})
	far.SetPolicy(requests)
	if got, _ := tell(t, rawClient(t, far.addr), getPath, bytes.NewReader(frame(false, hash[:]))); got != statusOf(codeNotFound) {
		t.Errorf("status %s", got)
	}
}

// An upstream that says it is a gateway and lies about dictionaries: clients get their
// replies, or an error, and it is not asked all the time.
func TestHostileUpstream(t *testing.T) {
	asked := make(chan string, 10_000)
	var answer []byte
	d := someDict(t, 1)
	server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/grpc")
		if r.URL.Path == getPath || r.URL.Path == putPath {
			asked <- r.URL.Path
			h.Set(http.TrailerPrefix+"Grpc-Status", "0")
			_, _ = w.Write(answer)
			return
		}
		h.Set("Grpc-Accept-Encoding", "cinch,zstd,cinch-zstd")
		h.Set(offerHeader, hexHash(d.Hash()))
		h.Set("Grpc-Encoding", pairEncoding)
		h.Set(http.TrailerPrefix+"Grpc-Status", "0")
		_, _ = w.Write(frame(true, compressedWith(t, d, payload(300))))
	})
	for _, answer = range [][]byte{nil, frame(false, make([]byte, 32)), carried(someDict(t, 2)), make([]byte, 1<<20), []byte("\x00\xff\xff\xff\xff")} {
		near := startGateway(t, "grpc://"+server, nil)
		near.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Dict: someDict(t, 3)}))
		c := rawClient(t, near.addr)
		for range 50 {
			status, _, out := post(t, c, "Unary", bytes.NewReader(frame(false, payload(100))))
			if status == "0" || len(out) > 0 {
				t.Fatalf("status %s, %d bytes that can't be decompressed", status, len(out))
			}
		}
		if len(near.pool.Conns()) > 0 && len(near.pool.Conns()[0].capabilities.partner.fetched.Load().dicts) > 0 {
			t.Errorf("took %d bytes for a dictionary", len(answer))
		}
	}
	if n := len(asked); n > 20 {
		t.Errorf("asked %d times", n)
	}
}

// Whatever a peer sends as a message: the bytes that were compressed, or an error of ours.
func FuzzOpenPaired(f *testing.F) {
	d := someDict(f, 1)
	g := NewGateway(Config{
		MaxCompress: 1 << 20, MaxOpen: 1 << 20, Peers: true,
		Requests: memory.NewBudget(64 << 20), Replies: memory.NewBudget(64 << 20),
	})
	f.Add(compressedWith(f, d, payload(300)))
	f.Add(pack(f, "zstd", payload(300)))
	f.Add(append(wire.AppendPaired(nil, d.Number()), 0x60, 0xff, 0xff, 1, 0, 0))
	f.Fuzz(func(t *testing.T, m []byte) {
		p := plan{from: pairEncoding, pair: &pairing{prev: &fetched{dicts: []*codec.Dict{d}}}}
		w := newRewriter(t.Context(), bytes.NewReader(frame(true, m)), p, false, g.shared.decompressor, g.shared.compressor)
		w.grant.Account.Open(g.requests.Client(nil), nil)
		out, err := io.ReadAll(w)
		w.free()
		var missing *missingError
		switch {
		case err == nil && (len(out) < wire.HeaderLen || out[0] != 0 || len(out) > wire.HeaderLen+1<<20):
			t.Errorf("%d bytes", len(out))
		case err != nil && !errors.Is(err, errCorrupt) && !errors.Is(err, errTooLarge) && !errors.As(err, &missing):
			t.Error(err)
		case g.cfg.Requests.Use().InUse != 0:
			t.Errorf("%d bytes of the budget are lost", g.cfg.Requests.Use().InUse)
		}
	})
}
