package grpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// Bounds of what the far gateway keeps. More of a connection than the near one counts on,
// lest a message that is on its way when others come finds its dictionary gone.
const maxPeerDicts = 24

// shelfLimits are of all connections of a gateway.
var shelfLimits = pair.Limits{Bytes: 64 << 20}

// peer is the far gateway's view of the near one: the dictionaries that came over one
// client's connection. It lives as long as the connection; nil where clients are no gateways.
type peer struct {
	g      *Gateway
	client *client

	mu     sync.Mutex
	closed bool
	busy   bool
	dicts  []*codec.Dict // the oldest first
	gave   map[[wire.HashLen]byte]bool
}

// newPeer returns nil where clients are no gateways.
func (g *Gateway) newPeer(c *client) *peer {
	if !g.cfg.Peers {
		return nil
	}
	return &peer{g: g, client: c, gave: map[[wire.HashLen]byte]bool{}}
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
	for _, d := range p.dicts {
		p.g.shelf.Drop(d)
	}
	p.dicts = nil
}

// find implements numbered.
func (p *peer) find(number uint32) *codec.Dict {
	p.mu.Lock()
	defer p.mu.Unlock()
	return findIn(p.dicts, number)
}

// refusal is why an exchange is refused.
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
		ending{code: no.code, message: no.text}.fail(w, false)
		return
	case err != nil:
		ending{code: codeInvalid, message: err.Error()}.fail(w, false)
		return
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	omitDefaults(h)
	h[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
	_, _ = w.Write(wire.AppendHeader(nil, false, len(answer)))
	_, _ = w.Write(answer)
}

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
	if !p.client.metadata.TryAcquire(most) {
		return refusal{codeResourceExhausted, "no memory for a dictionary"}
	}
	defer p.client.metadata.Release(most)
	message, err := readMessage(r, wire.HashLen+codec.MinDictLen, most)
	if err != nil {
		return err
	}
	content, err := wire.ParseDictionary(message)
	if err != nil {
		return err
	}
	d, err := p.g.shelved(content)
	if err != nil {
		return err
	}
	if err := p.keep(d); err != nil {
		p.g.shelf.Drop(d)
		return err
	}
	p.g.pairs.Dicts.Received.Add(1)
	return nil
}

// shelved returns the dictionary of that content. It is dropped once.
func (g *Gateway) shelved(content []byte) (*codec.Dict, error) {
	d, err := codec.NewDict(content)
	if err != nil {
		return nil, err
	}
	if !wire.Nameable(d.Number()) {
		return nil, fmt.Errorf("%w: a dictionary that can't be named", wire.ErrPair)
	}
	if d = g.shelf.Add(d); d == nil {
		return nil, refusal{codeResourceExhausted, "too many dictionaries"}
	}
	return d, nil
}

// keep adds a dictionary, whose place on the shelf is the connection's from then on.
func (p *peer) keep(d *codec.Dict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := findIn(p.dicts, d.Number())
	switch {
	case p.closed:
		return refusal{codeUnavailable, "the connection ends"}
	case old != nil && old.Hash() != d.Hash():
		return refusal{codeInvalid, "another dictionary has the number " + wire.FormatNumber(d.Number())}
	case old != nil: // it is the newest now
		p.dicts = slices.DeleteFunc(p.dicts, func(other *codec.Dict) bool { return other == old })
		p.g.shelf.Drop(old)
	case len(p.dicts) == maxPeerDicts:
		p.g.shelf.Drop(p.dicts[0])
		p.dicts = slices.Delete(p.dicts, 0, 1)
	}
	p.dicts = append(p.dicts, d)
	return nil
}

// get hands out a dictionary of replies, once a connection.
func (p *peer) get(r *http.Request) ([]byte, error) {
	message, err := readMessage(r, wire.HashLen, wire.HashLen)
	if err != nil {
		return nil, err
	}
	hash := [wire.HashLen]byte(message)
	d := p.g.replyDict(hash)
	if d == nil {
		return nil, refusal{codeNotFound, "no such dictionary"}
	}
	p.mu.Lock()
	again := p.gave[hash]
	if len(p.gave) >= maxGave {
		clear(p.gave)
	}
	p.gave[hash] = true
	p.mu.Unlock()
	if again {
		return nil, refusal{codeResourceExhausted, "a dictionary is handed out once a connection"}
	}
	p.g.pairs.Dicts.Sent.Add(1)
	return wire.AppendDictionary(nil, hash, d.Content()), nil
}

// maxGave bounds what is remembered of dictionaries that were handed out.
const maxGave = 1000

// replyDict returns the dictionary with a hash if replies are compressed with it.
func (g *Gateway) replyDict(hash [wire.HashLen]byte) *codec.Dict {
	if p := g.policy.Load(); p != nil {
		for _, r := range p.Rules() {
			if r.Dict != nil && r.Dict.Hash() == hash && r.Direction&policy.Reply != 0 && len(r.Dict.Content()) <= maxPairDict {
				return r.Dict
			}
		}
	}
	d, _ := g.kinds.ByHash(hash, policy.Reply)
	return d
}

// heldBy are the dictionaries that a request says its sender holds.
type heldBy []wire.ID

// has implements holder.
func (h heldBy) has(d *codec.Dict) bool { return slices.Contains(h, wire.IDOf(d.Hash())) }

// hexHash writes a hash as headers have it.
func hexHash(hash [wire.HashLen]byte) string { return hex.EncodeToString(hash[:]) }
