package grpc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/pair"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// Bounds of what the near gateway keeps of one connection, and how it goes about it.
const (
	maxSent       = 16          // dictionaries that we count on the other side to have
	maxFetched    = 16          // dictionaries of replies
	maxMissing    = 3           // times that the other side had not got one
	maxQuickPairs = 32          // exchanges before they are slowed down
	pairPause     = time.Minute // after an exchange that failed
	pairSlow      = time.Second
	keepSent      = 10 * time.Minute // before a dictionary makes room for another
)

// partner is the state known of the gateway behind one connection to the upstream: which of
// our dictionaries it has, and which of its dictionaries we have. It lives as long as the
// connection. Exchanges run one at a time, in goroutines that end with alive.
type partner struct {
	alive     context.Context
	transport http.RoundTripper
	scheme    string
	faults    http2.Faults
	totals    *pair.Totals

	fetched atomic.Pointer[fetched] // never nil

	mu        sync.Mutex
	supported bool // it listed pairEncoding
	disabled  bool // for good
	missing   int
	sent      []sentDict // the oldest first
	busy      bool
	exchanges int
	notBefore time.Time
}

// sentDict is a dictionary that the other side has.
type sentDict struct {
	hash [wire.HashLen]byte
	at   time.Time
}

// fetched are the dictionaries of replies that were fetched over a connection. It is never
// changed, so that a reply finds those that its request has listed.
type fetched struct {
	dicts  []*codec.Dict
	header string
}

// Dictionary implements envelope.Dictionaries.
func (f *fetched) Dictionary(number uint32) (*codec.Dict, error) { return findIn(f.dicts, number) }

// findIn returns the dictionary with a number. The error is envelope.ErrDictMissing: there is none.
func findIn(dicts []*codec.Dict, number uint32) (*codec.Dict, error) {
	for _, d := range dicts {
		if d.Number() == number {
			return d, nil
		}
	}
	return nil, envelope.ErrDictMissing
}

// with returns f and one more, without the oldest if these are too many.
func (f *fetched) with(d *codec.Dict) *fetched {
	next := &fetched{dicts: append(slices.Clone(f.dicts), d)}
	next.dicts = next.dicts[max(len(next.dicts)-maxFetched, 0):]
	var ids []wire.ID
	for _, d := range next.dicts {
		ids = append(ids, wire.IDOf(d.Hash()))
	}
	next.header = wire.FormatIDs(ids)
	return next
}

func newPartner(alive context.Context, transport http.RoundTripper, scheme string, faults http2.Faults, totals *pair.Totals) *partner {
	p := &partner{alive: alive, transport: transport, scheme: scheme, faults: faults, totals: totals}
	p.fetched.Store(&fetched{})
	return p
}

// setSupported tells that the other side has named the private encoding.
func (p *partner) setSupported() {
	p.mu.Lock()
	p.supported = true
	p.mu.Unlock()
}

// isReady reports whether the private encoding can be used.
func (p *partner) isReady() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.supported && !p.disabled
}

// stop ends the use of the private encoding on this connection.
func (p *partner) stop() {
	p.mu.Lock()
	p.disabled = true
	p.mu.Unlock()
}

// recordMissing tells that the other side has not got a dictionary. Once may be an accident; then it
// is sent again.
func (p *partner) recordMissing(number uint32) {
	p.totals.Dicts.Missing.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing++
	p.disabled = p.disabled || p.missing >= maxMissing
	p.sent = slices.DeleteFunc(p.sent, func(s sentDict) bool { return numberOf(s.hash) == number })
}

func numberOf(hash [wire.HashLen]byte) uint32 {
	n, _ := wire.ParseNumber(hex.EncodeToString(hash[:4]))
	return n
}

// has implements holder: it has what we sent. What it has not got is on its way from then on.
func (p *partner) has(d *codec.Dict) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.supported || p.disabled || !wire.Nameable(d.Number()) || len(d.Content()) > maxPairDict:
		return false
	case slices.ContainsFunc(p.sent, func(s sentDict) bool { return s.hash == d.Hash() }):
		return true
	case len(p.sent) == maxSent && time.Since(p.sent[0].at) < keepSent:
		return false // or more dictionaries than there are places would take turns
	}
	p.begin("put", func(ctx context.Context) error { return p.put(ctx, d) })
	return false
}

// fetchOffered takes what a response offers: a dictionary that we have not got is fetched.
func (p *partner) fetchOffered(text string) {
	if !p.isReady() { // no gateway, or none that we know as one
		return
	}
	hash, err := wire.ParseHash(text)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.fetched.Load().dicts, func(d *codec.Dict) bool { return d.Hash() == hash }) {
		p.begin("get", func(ctx context.Context) error { return p.get(ctx, hash) })
	}
}

// begin runs an exchange, unless one is under way or it is too early for another. p.mu is held.
func (p *partner) begin(name string, exchange func(context.Context) error) {
	now := time.Now()
	if p.busy || now.Before(p.notBefore) {
		return
	}
	p.busy = true
	if p.exchanges++; p.exchanges > maxQuickPairs {
		p.notBefore = now.Add(pairSlow)
	}
	go p.run(name, exchange)
}

func (p *partner) run(name string, exchange func(context.Context) error) {
	err := gateway.ErrPanicked
	defer func() { p.exchangeEnded(name, err) }()
	defer gateway.CatchPanic(p.faults.Log, p.faults.Stats, nil)
	ctx, cancel := context.WithTimeout(p.alive, pairTimeout)
	defer cancel()
	err = exchange(ctx)
}

// exchangeEnded lets another exchange begin, after a failure not for a while.
func (p *partner) exchangeEnded(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
	if err == nil {
		return
	}
	p.totals.Dicts.Failed.Add(1)
	p.notBefore = time.Now().Add(pairPause)
	if p.alive.Err() == nil {
		p.faults.Log.Warn("a dictionary was not exchanged with the next gateway; messages go without", "exchange", name, "err", err)
	}
}

// put sends a dictionary.
func (p *partner) put(ctx context.Context, d *codec.Dict) error {
	if _, err := p.call(ctx, putPath, wire.AppendDictionary(nil, d.Hash(), d.Content())); err != nil {
		return err
	}
	p.totals.Dicts.Sent.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, sentDict{d.Hash(), time.Now()})
	p.sent = p.sent[max(len(p.sent)-maxSent, 0):]
	return nil
}

// get fetches a dictionary.
func (p *partner) get(ctx context.Context, hash [wire.HashLen]byte) error {
	answer, err := p.call(ctx, getPath, hash[:])
	if err != nil {
		return err
	}
	content, err := wire.ParseDictionary(answer)
	if err != nil {
		return err
	}
	d, err := codec.NewDict(content)
	switch {
	case err != nil:
		return err
	case d.Hash() != hash || !wire.Nameable(d.Number()):
		return fmt.Errorf("%w: not the dictionary that was asked for", wire.ErrPair)
	}
	f := p.fetched.Load()
	if _, err := f.Dictionary(d.Number()); err != nil {
		p.fetched.Store(f.with(d)) // exchanges run one at a time
	}
	p.totals.Dicts.Received.Add(1)
	return nil
}

var errAnswer = errors.New("the other gateway says no")

// call is a unary call of our own.
func (p *partner) call(ctx context.Context, path string, message []byte) ([]byte, error) {
	c := gatewayCall{
		scheme: p.scheme, authority: "gateway", path: path, body: frameOf(false, message),
		most: wire.HeaderLen + wire.HashLen + maxPairDict,
	}
	answer, err := c.do(ctx, p.transport)
	if err != nil {
		return nil, err
	}
	if s, text := answer.status(); s != "0" {
		return nil, fmt.Errorf("%w: status %q, %s", errAnswer, s, text)
	}
	return oneMessage(answer.body)
}

// oneMessage takes the only message out of a body, which may be empty.
func oneMessage(body []byte) ([]byte, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if len(body) < wire.HeaderLen {
		return nil, wire.ErrTruncated
	}
	h, err := wire.ParseHeader(body)
	switch {
	case err != nil:
		return nil, err
	case h.Compressed || int64(h.Len) != int64(len(body)-wire.HeaderLen):
		return nil, fmt.Errorf("%w: a body that is not one plain message", wire.ErrPair)
	}
	return body[wire.HeaderLen:], nil
}
