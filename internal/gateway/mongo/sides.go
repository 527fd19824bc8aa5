package mongo

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A near gateway stands beside the application, a far one beside the server. The near one
// says with each request whether its reply may be compressed, as a compressed request does
// for a server; its rules and its measurements hold for both directions. The far one's rules
// can only leave more plain. What the far one exchanges with the server is not compressed.

// sides is what a session has agreed on with either side, and what it remembers of frames if
// that is a gateway. The request pump hears the client and speaks to the server, the reply pump
// the other way round.
type sides struct {
	taken atomic.Uint32 // the compressorSet that the server took from our offer

	fromClient hearer
	toClient   speaker
	fromServer hearer
	toServer   speaker
}

func newSides(p *pairs) *sides {
	s := &sides{}
	s.fromClient.pairs, s.toClient.pairs, s.fromServer.pairs, s.toServer.pairs = p, p, p, p
	return s
}

// withServer takes what the reply to a hello says about the server, of what it was offered.
func (s *sides) withServer(d described, offered compressorSet) {
	taken := d.taken & offered
	if taken.has(wire.BetweenGateways) && !s.fromServer.on.Load() {
		s.toServer.told.Store(&d.told)
		s.fromServer.on.Store(true)
		s.fromServer.pairs.Connections.Add(1)
	}
	s.taken.Store(uint32(taken))
}

// withClient takes notice of a client that is a gateway, before it hears that so are we.
func (s *sides) withClient(h *handshake) {
	if !slices.Contains(h.shown, wire.BetweenGateways) || s.fromClient.on.Load() {
		return
	}
	s.toClient.told.Store(&h.told)
	s.fromClient.on.Store(true)
	s.fromClient.pairs.Connections.Add(1)
}

// open returns a message that one end heard without compression. What is pooled goes back to the pool afterwards.
func (s *sides) open(h *hearer, m *message) (b, pooled []byte, err error) {
	if m.came == plain {
		return m.bytes, nil, nil
	}
	began := time.Now()
	if m.came == wire.BetweenGateways {
		pooled, err = h.open(m.bytes, &m.paired)
	} else {
		pooled, err = h.pairs.codecs.open(m.bytes, wire.Compressed{Header: m.header, Compressor: m.came})
	}
	m.opening = time.Since(began)
	return pooled, pooled, err
}

// ofServer is the set of the protocol's own compressors that the server took.
func (s *sides) ofServer() compressorSet { return compressorSet(s.taken.Load()) &^ only }

// paired reports whether a side is a gateway.
func (s *sides) paired() bool { return s.fromClient.on.Load() || s.fromServer.on.Load() }

// framed reports whether a request goes to the server in a frame: what rules say that name
// another compressor holds.
func (s *sides) framed(b *bargain) bool {
	lead := b.lead()
	return s.fromServer.on.Load() && (lead.Auto || lead.Setting.Codec == codec.Zstd)
}

// crossed is how many bytes of a message have crossed the link: near when the client is a
// gateway, and far when it isn't.
func (s *sides) crossed(near, far []byte) int {
	if s.fromClient.on.Load() {
		return len(near)
	}
	return len(far)
}

// free gives back what both ends have of other gateways, when both pumps have ended.
func (s *sides) free() {
	s.fromClient.free()
	s.fromServer.free()
}
