package mongo

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/pair"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A near gateway stands beside the application, a far one beside the server. The near one
// says with each request whether its reply may be compressed, as a compressed request does
// for a server; its rules and its measurements hold for both directions. The far one's rules
// can only leave more plain. What the far one exchanges with the server is not compressed.

// peerFrames has what a session has agreed on with its client and its server, and reads and writes the frames if one
// of them is a gateway. The request pump uses clientIn and serverOut, the reply pump serverIn and clientOut.
type peerFrames struct {
	taken   atomic.Uint32 // the compressorSet that the server took from our offer
	offered atomic.Uint32 // the compressorSet that replies to hellos have told the client

	clientIn  frameReader
	clientOut frameWriter
	serverIn  frameReader
	serverOut frameWriter
}

func newPeerFrames(p *pairs) *peerFrames {
	s := &peerFrames{}
	s.offered.Store(1 << wire.Noop) // it decompresses nothing, and has no name to agree on
	s.clientIn.pairs, s.clientOut.pairs, s.serverIn.pairs, s.serverOut.pairs = p, p, p, p
	return s
}

// withServer records what the reply to a hello says that the server took of an offer.
func (s *peerFrames) withServer(d helloReply, offer []wire.CompressorID) {
	var taken compressorSet
	for _, id := range offer {
		if d.accepted.has(id) {
			taken.add(id)
		}
	}
	if taken.has(wire.BetweenGateways) && !s.serverIn.on.Load() {
		s.serverOut.told.Store(&d.announced)
		s.serverIn.on.Store(true)
		s.serverIn.pairs.Connections.Add(1)
	}
	s.taken.Store(uint32(taken))
}

// withClient records what the reply to a hello is about to tell the client. One that is a gateway hears that it talks
// to one.
func (s *peerFrames) withClient(h *handshake) {
	for _, id := range h.clientCompressors {
		s.offered.Or(1 << id)
	}
	if !slices.Contains(h.clientCompressors, wire.BetweenGateways) || s.clientIn.on.Load() {
		return
	}
	s.clientOut.told.Store(&h.announced)
	s.clientIn.on.Store(true)
	s.clientIn.pairs.Connections.Add(1)
}

// ofServer is the set of the protocol's own compressors that the server took.
func (s *peerFrames) ofServer() compressorSet { return compressorSet(s.taken.Load()) &^ gatewaysOnly }

// crossed returns the bytes of a message that have crossed the link: near when the client is a
// gateway, and far when it isn't.
func (s *peerFrames) crossed(near, far []byte) int {
	if s.clientIn.on.Load() {
		return len(near)
	}
	return len(far)
}

// free gives back what both ends have of other gateways, when both pumps have ended.
func (s *peerFrames) free() {
	s.clientIn.free()
	s.serverIn.free()
}

// MaxTrained is the size to which dictionaries are trained, in bytes. Larger ones save some
// percent more, but each connection may have to carry them.
const MaxTrained = 32 << 10

var errPair = errors.New("what another gateway does not send")

var shelfLimits = pair.Limits{Bytes: 64 << 20, Idle: 8 << 20, Each: 4 << 10}

// pairs is the state that the connections between a gateway and other gateways share.
type pairs struct {
	pair.Totals
	*compression
	shelf *pair.Shelf // of dictionaries of other gateways
}

func newPairs(c *compression) *pairs {
	return &pairs{compression: c, shelf: pair.NewShelf(shelfLimits)}
}

// shelved returns the dictionary that a frame brings or, one that is known, names by its hash.
func (p *pairs) shelved(b []byte, known bool) (*codec.Dict, error) {
	if known {
		if len(b) != 32 {
			return nil, fmt.Errorf("%w: a hash of %d bytes", errPair, len(b))
		}
		if d := p.shelf.Find([32]byte(b)); d != nil {
			return d, nil
		}
		return nil, fmt.Errorf("%w: a dictionary that is not here", errPair)
	}
	d, err := codec.NewDict(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPair, err)
	}
	if d = p.shelf.Add(d); d == nil {
		return nil, fmt.Errorf("%w: more dictionaries than %d bytes", errPair, shelfLimits.Bytes)
	}
	return d, nil
}

const (
	// A dictionary of 32 KiB takes 16 % off 100 KB of documents of 10 KB, 4 % off 1 MB and 1 % off
	// 4 MB; of documents of 350 bytes 7, 1 and 0.2 %. At 1 MB it takes no time that can be measured.
	maxDictMessage = 1 << 20  // bytes; longer messages gain nothing from a dictionary
	maxJudged      = 64 << 10 // bytes of messages by which a dictionary is judged: longer ones hold their own history
	minAlone       = 96       // bytes of a message, below which it gains nothing without one
	pairLevel      = 3        // of zstd, where a rule names none
)

// frameWriter encodes messages to another gateway over a connection as frames. It belongs to the pump that writes there.
type frameWriter struct {
	pairs   *pairs
	numbers wire.Numbers
	session sessionID
	slots   [wire.PairedSlots]frameSlot
	clock   uint64
	told    atomic.Pointer[[]hashPrefix] // dictionaries that the other end says it has; nil: none
}

// frameSlot is one of a frameWriter's places for dictionaries. Slots are for kinds of messages: a kind's next dictionary
// takes the place of the one before.
type frameSlot struct {
	kind any // the name of a rule or a kind of autodict's; nil: free
	dict *codec.Dict
	open bool // the other end may have its dictionaries
	sent bool
	owed int    // bytes of messages that went without it
	used uint64 // clock at its last use
}

// outgoing is a message on its way to another gateway.
type outgoing struct {
	message []byte // whole; its bytes may change while it is compressed, and are put back
	header  wire.Header
	rule    *policy.MessageRule // that covers it; nil: it goes as it is
	kind    *dictionary.Kind    // whose dictionary is used; nil: none
	wants   bool                // its reply may come in a frame too
	open    bool                // the other end may have the dictionaries of its kind
	force   bool                // it is compressed whatever that costs or gains

	sent int // bytes of its frame, once that is made
}

// frame returns the message in a frame, which must then be sent, behind a dictionary if it is
// the first one to use it, in a buffer of the pool's. reason says why it is not compressed.
func (w *frameWriter) frame(o *outgoing) (out []byte, reason string) {
	body := o.message[wire.HeaderLen:]
	d, level, slot := w.chooseDictionary(o)
	room := wire.MaxPairedHead + codec.MaxEncodedLen(codec.Zstd, len(body))
	if slot > 0 && !w.slots[slot].sent {
		room += len(d.Content()) + wire.MaxPairedHead
	}
	out = memory.GetBuffer(room)
	out = w.sendDict(out, slot)
	start := len(out)
	if reason = w.whyNot(o, d); reason == "" {
		out, reason = w.appendCompressed(out, o, body, d, level, slot)
	}
	if reason != "" {
		out = wire.AppendPaired(out[:start], wire.Paired{Header: o.header, Stored: true, Wants: o.wants}, w.numbers)
		out = append(out, body...)
		w.pairs.Messages.Stored.Add(1)
	}
	wire.FinishPaired(out[start:])
	o.sent = len(out) - start
	w.numbers = wire.Numbers{Request: o.header.RequestID, Answer: o.header.ResponseTo}
	return out, reason
}

// whyNot says why not even to try to compress a message; "" to try.
func (w *frameWriter) whyNot(o *outgoing, d *codec.Dict) string {
	switch {
	case o.rule == nil:
		return "rule"
	case d == nil && len(o.message) < minAlone:
		return "small"
	case d == nil && codec.Incompressible(o.message[wire.HeaderLen:]):
		return "incompressible"
	}
	return ""
}

// appendCompressed appends a frame with the body compressed, or says why that is no use.
func (w *frameWriter) appendCompressed(dst []byte, o *outgoing, body []byte, d *codec.Dict, level, slot int) (out []byte, reason string) {
	st, ok := w.lowered(level, d, o.force)
	if !ok {
		return dst, gateway.SteppedDown
	}
	began := time.Now()
	start := len(dst)
	id, at := findSession(body)
	same := at > 0 && id == w.session
	out = wire.AppendPaired(dst, wire.Paired{Header: o.header, Slot: slot, Wants: o.wants, Session: same}, w.numbers)
	if same {
		clear(body[at : at+len(id)])
		defer copy(body[at:], id[:])
	}
	out, err := w.pairs.encode(out, body, st, d)
	w.observe(o, body, d, len(out)-start)
	stats, spent := w.pairs.stats, time.Since(began)
	switch n := len(out) - start; {
	case err != nil:
		stats.Error("seal")
		return dst, "error"
	case !o.force && !o.rule.SavesEnough(len(o.message), n):
		stats.SealTime(o.rule.Name, codec.Zstd, spent)
		return dst, "no_gain"
	}
	if at > 0 {
		w.session = id
	}
	w.pairs.link.measure(&w.pairs.link.compressSpeed, wire.BetweenGateways, len(o.message), spent)
	w.pairs.Messages.Compressed.Add(1)
	return out, ""
}

// lowered returns the setting of a message by the gateway's budgets; not ok: there is no time for it.
func (w *frameWriter) lowered(level int, d *codec.Dict, force bool) (st codec.Setting, ok bool) {
	st = codec.Setting{Codec: codec.Zstd, Level: level}
	if d != nil {
		st.Dict = d.Number()
	}
	if !force {
		st = w.pairs.effort.LowerWithin(st)
	}
	return st, st.Codec != codec.Raw
}

// chooseDictionary returns the dictionary for a message that the receiver has, or will have when it is
// sent, with its slot and the level; no dictionary in slot 0.
func (w *frameWriter) chooseDictionary(o *outgoing) (d *codec.Dict, level, slot int) {
	if o.rule == nil {
		return nil, 0, 0
	}
	level = o.rule.Setting.Level
	if level == 0 {
		level = pairLevel
	}
	if len(o.message) > maxDictMessage {
		return nil, level, 0
	}
	var kind any = o.rule.Name
	if d = o.rule.Dict; d == nil && o.kind != nil {
		own := 0
		if d, own = o.kind.Dictionary(); own > 0 {
			level = own
		}
		kind = o.kind
	}
	if d == nil {
		return nil, level, 0
	}
	if slot = w.slotFor(kind); o.open {
		w.slots[slot].open = true
	}
	if slot = w.due(slot, d, len(o.message)); slot == 0 {
		return nil, level, 0
	}
	return d, level, slot
}

// slotFor finds the slot of a kind: its own, or the one that was not used for longest.
func (w *frameWriter) slotFor(kind any) (slot int) {
	w.clock++
	for i := 1; i < len(w.slots); i++ {
		if w.slots[i].kind == kind {
			slot = i
			break
		}
		if slot == 0 || w.slots[i].used < w.slots[slot].used {
			slot = i
		}
	}
	s := &w.slots[slot]
	if s.kind != kind {
		*s = frameSlot{kind: kind}
	}
	s.used = w.clock
	return slot
}

// due returns the slot if the receiver has the dictionary or is worth sending it now, and 0
// until then: a connection that carries little never is, nor one that may not have it.
func (w *frameWriter) due(slot int, d *codec.Dict, bytes int) int {
	s := &w.slots[slot]
	if s.dict != d {
		s.dict, s.sent, s.owed = d, false, 0
	}
	if !s.open {
		return 0
	}
	if s.sent || w.knows(d) {
		return slot
	}
	if s.owed += bytes; s.owed >= len(d.Content()) {
		return slot
	}
	return 0
}

// sendDict appends the frame for the dictionary of a slot, unless that was sent.
func (w *frameWriter) sendDict(dst []byte, slot int) []byte {
	s := &w.slots[slot]
	if slot == 0 || s.sent {
		return dst
	}
	s.sent = true
	hash := s.dict.Hash()
	if w.knows(s.dict) {
		w.pairs.Dicts.Named.Add(1)
		return wire.AppendPairedDict(dst, slot, true, hash[:])
	}
	w.pairs.Dicts.Sent.Add(1)
	w.pairs.Dicts.SentBytes.Add(uint64(len(s.dict.Content())))
	return wire.AppendPairedDict(dst, slot, false, s.dict.Content())
}

func (w *frameWriter) knows(d *codec.Dict) bool {
	told := w.told.Load()
	if told == nil {
		return false
	}
	hash := d.Hash()
	for _, p := range *told {
		if bytes.Equal(p[:], hash[:len(p)]) {
			return true
		}
	}
	return false
}

// excerpt is the part of a long message that is sampled, in bytes: some of its documents.
const excerpt = 4 << 10

// observe shows a message to the training of dictionaries. What is sampled is what is compressed.
// What messages take before the receiver has the dictionary says nothing about that.
func (w *frameWriter) observe(o *outgoing, body []byte, d *codec.Dict, sent int) {
	if o.kind == nil {
		return
	}
	if wanted, _ := o.kind.Dictionary(); wanted != d || d != nil && len(body) > maxJudged {
		return
	}
	if n := len(body); n > excerpt {
		body, sent = body[:excerpt], sent*excerpt/n
	}
	o.kind.Observe(body, sent)
}

// frameReader decodes the frames that another gateway sends over a connection. But for on it belongs to the pump that reads
// there.
type frameReader struct {
	pairs   *pairs
	on      atomic.Bool // frames are agreed on
	numbers wire.Numbers
	session sessionID
	slots   [wire.PairedSlots]*codec.Dict // places on the shelf
	pinned  []*codec.Dict                 // those that the other end was told of, likewise
}

// open returns the message in a frame, in a buffer of the pool's.
func (h *frameReader) open(m *message) ([]byte, error) {
	began, p := time.Now(), &m.paired
	h.numbers = wire.Numbers{Request: p.Header.RequestID, Answer: p.Header.ResponseTo}
	buf := wire.AppendHeader(memory.GetBuffer(p.Header.Length), p.Header)
	if p.Stored {
		return append(buf, m.received[p.Head:]...), nil
	}
	d := h.slots[p.Slot]
	if d == nil && p.Slot != 0 {
		memory.PutBuffer(buf)
		return nil, fmt.Errorf("%w: a dictionary that was not sent", errPair)
	}
	out, err := h.pairs.engine.Decompress(buf, m.received[p.Head:], codec.Zstd, p.Header.Length-wire.HeaderLen, d)
	if err == nil {
		err = h.restore(out[wire.HeaderLen:], p.Session)
	}
	if err != nil {
		memory.PutBuffer(buf)
		return nil, err
	}
	m.decompressTime = time.Since(began)
	h.pairs.stats.Opened(codec.Zstd, len(m.received), len(out), m.decompressTime)
	h.pairs.link.measure(&h.pairs.link.decompressSpeed, wire.BetweenGateways, len(out), m.decompressTime)
	h.pairs.Messages.Opened.Add(1)
	return out, nil
}

// restore puts the session's identifier where it was taken out, and remembers it otherwise.
func (h *frameReader) restore(body []byte, taken bool) error {
	id, at := findSession(body)
	switch {
	case taken && (at == 0 || id != sessionID{}):
		return fmt.Errorf("%w: no place for a session", errPair)
	case taken:
		copy(body[at:], h.session[:])
	case at > 0:
		h.session = id
	}
	return nil
}

// take puts a dictionary into its slot.
func (h *frameReader) take(frame []byte, p *wire.Paired) error {
	d, err := h.pairs.shelved(frame[p.Head:], p.Known)
	if err != nil {
		return err
	}
	h.pairs.shelf.Drop(h.slots[p.Slot])
	h.slots[p.Slot] = d
	h.pairs.Dicts.Received.Add(1)
	return nil
}

// free gives the dictionaries back.
func (h *frameReader) free() {
	for i, d := range h.slots {
		h.pairs.shelf.Drop(d)
		h.slots[i] = nil
	}
	for _, d := range h.pinned {
		h.pairs.shelf.Drop(d)
	}
	h.pinned = nil
}

// pin returns the dictionaries that the other end is told of. They stay until the connection
// ends, or those that are told of could be gone when they are named.
func (h *frameReader) pin() []*codec.Dict {
	if h.pinned == nil {
		h.pinned = h.pairs.shelf.Latest(maxAnnounced)
	}
	return h.pinned
}

// sessionID is the random part of a logical session's identifier: 16 bytes that a client
// repeats in each of its requests, and that no dictionary can know.
type sessionID [16]byte

// maxSessionMessage bounds where it is looked for, in bytes: it is taken out of messages in
// which it counts.
const maxSessionMessage = 4 << 10

// lsidHead precedes it: lsid: {id: UUID(…)}.
var lsidHead = []byte("\x03lsid\x00\x1e\x00\x00\x00\x05id\x00\x10\x00\x00\x00\x04")

// findSession returns what looks like a session's identifier first in a body, and where it
// is; 0 for nowhere. Both ends of a pair ask of the same bytes, but for the identifier itself.
func findSession(body []byte) (id sessionID, at int) {
	if len(body) > maxSessionMessage {
		return id, 0
	}
	i := bytes.Index(body, lsidHead)
	if i < 0 || i+len(lsidHead)+len(id) > len(body) {
		return id, 0
	}
	at = i + len(lsidHead)
	copy(id[:], body[at:])
	return id, at
}
