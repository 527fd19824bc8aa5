package grpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// Bounds of what the far gateway keeps. More of a connection than the near one counts on,
// lest a message that is on its way when others come finds its dictionary gone.
const maxPeerDicts = 24

// peer is the far gateway's view of the near one: the dictionaries that came over one
// client's connection. It lives as long as the connection; nil where clients are no gateways.
type peer struct {
	dicts  *dictionaries      // of the gateway
	memory *memory.ConnMemory // of the connection
	links  bool               // we take links

	mu     sync.Mutex
	closed bool
	busy   bool
	has    []*codec.Dict // the oldest first
	sent   map[[wire.HashLen]byte]bool
}

func newPeer(dicts *dictionaries, m *memory.ConnMemory, links bool) *peer {
	return &peer{dicts: dicts, memory: m, links: links, sent: map[[wire.HashLen]byte]bool{}}
}

// close gives back what the connection's dictionaries took. Calls that are still at work
// have theirs in hand.
func (p *peer) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, d := range p.has {
		p.dicts.shelf.Drop(d)
	}
	p.has = nil
}

// Dictionary implements cinch.Dictionaries.
func (p *peer) Dictionary(number uint32) (*codec.Dict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return findIn(p.has, number)
}

// refusal is the reason for refusing an exchange.
type refusal struct {
	code code
	text string
}

func (r refusal) Error() string { return r.text }

// serve answers a call between gateways. A nil peer refuses it: it is never handed on, or
// anybody's client could speak to the next gateway in our name.
func (p *peer) serve(w http.ResponseWriter, r *http.Request) {
	answer, err := p.exchange(w, r)
	var no refusal
	switch {
	case errors.As(err, &no):
		callStatus{code: no.code, message: no.text}.fail(w, false)
		return
	case err != nil:
		callStatus{code: codeInvalid, message: err.Error()}.fail(w, false)
		return
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	h[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
	_, _ = w.Write(wire.AppendHeader(nil, false, len(answer)))
	_, _ = w.Write(answer)
}

// exchange takes or hands out a dictionary, one at a time.
func (p *peer) exchange(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	known := r.URL.Path == putPath || r.URL.Path == getPath
	if p == nil || !known || r.Method != http.MethodPost || !isGRPC(r.Header) {
		return nil, refusal{codeUnimplemented, "gateways don't speak to each other here, see peers in the configuration"}
	}
	if !p.begin() {
		return nil, refusal{codeUnavailable, "one exchange at a time"}
	}
	defer p.end()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(pairTimeout))
	if r.URL.Path == getPath {
		return p.get(r)
	}
	return nil, p.put(r)
}

func (p *peer) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy || p.closed {
		return false
	}
	p.busy = true
	return true
}

func (p *peer) end() {
	p.mu.Lock()
	p.busy = false
	p.mu.Unlock()
}

// readMessage reads the only message of a request, of at least and at most so many bytes.
func readMessage(r *http.Request, least, most int) ([]byte, error) {
	var header [wire.HeaderLen]byte
	if _, err := fill(r.Body, header[:]); err != nil {
		return nil, err
	}
	h, err := wire.ParseHeader(header[:])
	if err != nil {
		return nil, err
	}
	if h.Compressed || int64(h.Len) < int64(least) || int64(h.Len) > int64(most) {
		return nil, fmt.Errorf("%w: a message of %d bytes", wire.ErrPair, h.Len)
	}
	message := make([]byte, h.Len)
	_, err = fill(r.Body, message)
	return message, err
}

// put takes a dictionary.
func (p *peer) put(r *http.Request) error {
	const most = wire.HashLen + maxPairDict
	if !p.memory.Metadata.TryAcquire(most) {
		return refusal{codeResourceExhausted, "no memory for a dictionary"}
	}
	defer p.memory.Metadata.Release(most)
	message, err := readMessage(r, wire.HashLen+codec.MinDictLen, most)
	if err != nil {
		return err
	}
	content, err := wire.ParseDictionary(message)
	if err != nil {
		return err
	}
	d, err := p.dicts.shelved(content)
	if err != nil {
		return err
	}
	if err := p.keep(d); err != nil {
		p.dicts.shelf.Drop(d)
		return err
	}
	p.dicts.totals.Dicts.Received.Add(1)
	return nil
}

// keep adds a dictionary, whose place on the shelf is the connection's from then on.
func (p *peer) keep(d *codec.Dict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, _ := findIn(p.has, d.Number())
	switch {
	case p.closed:
		return refusal{codeUnavailable, "the connection ends"}
	case old != nil && old.Hash() != d.Hash():
		return refusal{codeInvalid, "another dictionary has the number " + wire.FormatNumber(d.Number())}
	case old != nil: // it is the newest now
		p.has = slices.DeleteFunc(p.has, func(other *codec.Dict) bool { return other == old })
		p.dicts.shelf.Drop(old)
	case len(p.has) == maxPeerDicts:
		p.dicts.shelf.Drop(p.has[0])
		p.has = slices.Delete(p.has, 0, 1)
	}
	p.has = append(p.has, d)
	return nil
}

// get hands out a dictionary of replies, once a connection.
func (p *peer) get(r *http.Request) ([]byte, error) {
	message, err := readMessage(r, wire.HashLen, wire.HashLen)
	if err != nil {
		return nil, err
	}
	hash := [wire.HashLen]byte(message)
	d := p.dicts.forReplies(hash)
	if d == nil {
		return nil, refusal{codeNotFound, "no such dictionary"}
	}
	p.mu.Lock()
	again := p.sent[hash]
	if len(p.sent) >= maxSentDicts {
		clear(p.sent)
	}
	p.sent[hash] = true
	p.mu.Unlock()
	if again {
		return nil, refusal{codeResourceExhausted, "a dictionary is handed out once a connection"}
	}
	p.dicts.totals.Dicts.Sent.Add(1)
	return wire.AppendDictionary(nil, hash, d.Content()), nil
}

// maxSentDicts bounds what is remembered of dictionaries that were handed out.
const maxSentDicts = 1000

// heldBy are the dictionaries that a request says its sender holds.
type heldBy []wire.ID

// has implements holder.
func (h heldBy) has(d *codec.Dict) bool { return slices.Contains(h, wire.IDOf(d.Hash())) }

// hexHash writes a hash as headers have it.
func hexHash(hash [wire.HashLen]byte) string { return hex.EncodeToString(hash[:]) }
