package mongo

import (
	"bytes"
	"encoding/hex"
	"net"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// handshake is a hello that waits for its reply.
type handshake struct {
	shown []wire.CompressorID // what the client offered and we have
	asked bool                // the request that went upstream carried our offer
	told  []hashPrefix        // dictionaries that the client has, if it is a gateway
	tell  []byte              // hashes of those that we have, for a client that is one

	logins logins // that the client hears of

	standbys []string // of other gateways, for clients that are none

	balanced bool     // the client takes us for a load balancer
	service  [12]byte // and sees this id
}

// greeting is what a client's hello says.
type greeting struct {
	offers  bool                // there is a list of compressors
	offered []wire.CompressorID // those of it that we have, in the client's order
	told    []hashPrefix        // dictionaries that the client says it has

	balanced bool   // the client wants a load balancer
	refused  string // the mechanism of a login that was taken out; "": none was
}

// helloEdit is what becomes of a hello.
type helloEdit struct {
	offer    []wire.CompressorID // in place of the client's
	held     []*codec.Dict       // that a gateway behind us is told of
	inject   bool                // the offer is made even when the client makes none
	balancer bool                // the question for one is taken out: servers refuse it
	peers    bool                // clients may be gateways
	logins   logins              // that may begin in it
}

// rewriteHello appends the document of a hello, edited. Everything else stays as it is.
func rewriteHello(dst, doc []byte, edit helloEdit) ([]byte, greeting, error) {
	var g greeting
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	err := wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "compression":
		case speculativeKey:
			if refused := edit.logins.refusedFirst(e.Value); refused != "" {
				g.refused = refused
				return true
			}
			dst = append(dst, e.Of(doc)...)
			return true
		case "loadBalanced":
			if wanted, ok := e.Value.BooleanOK(); edit.balancer && ok {
				g.balanced = wanted
				return true
			}
			fallthrough
		default:
			dst = append(dst, e.Of(doc)...)
			return true
		}
		if !g.offers {
			dst = appendCompression(dst, edit.offer, edit.held)
		}
		g.offers = true
		g.offered = compressorsIn(e.Value, edit.peers)
		if slices.Contains(g.offered, wire.BetweenGateways) {
			g.told = heldIn(e.Value)
		}
		return true
	})
	if edit.inject && !g.offers {
		dst = appendCompression(dst, edit.offer, edit.held)
	}
	return wire.FinishDocument(dst, start), g, err
}

// compressorsIn reads a list of names, each one once, and leaves out what we don't know, and
// what gateways agree on unless the other end may be one.
func compressorsIn(v bsoncore.Value, gateway bool) []wire.CompressorID {
	var list []wire.CompressorID
	_ = wire.Elements(wire.Document(v), func(e wire.Element) bool {
		id := compressorNamed(wire.Text(e.Value))
		if id == wire.BetweenGateways && !gateway {
			return true
		}
		if id != plain && !slices.Contains(list, id) {
			list = append(list, id)
		}
		return true
	})
	return list
}

// heldIn reads the dictionaries that a gateway has from the names in its list.
func heldIn(v bsoncore.Value) (told []hashPrefix) {
	_ = wire.Elements(wire.Document(v), func(e wire.Element) bool {
		var p hashPrefix
		text, ok := bytes.CutPrefix(wire.Text(e.Value), []byte(heldName))
		if ok && len(text) == hex.EncodedLen(len(p)) && len(told) < maxAnnounced {
			if _, err := hex.Decode(p[:], text); err == nil {
				told = append(told, p)
			}
		}
		return true
	})
	return told
}

// heldName begins the names in a list of compressors that stand for dictionaries: servers and
// gateways ignore names that they don't know.
const heldName = pairName + "-"

// arrayKey is the key of an array's n-th element.
func arrayKey(n int) string { return strconv.Itoa(n) }

func appendCompression(dst []byte, list []wire.CompressorID, held []*codec.Dict) []byte {
	index, dst := bsoncore.AppendArrayElementStart(dst, "compression")
	n := 0
	add := func(name string) {
		dst = bsoncore.AppendStringElement(dst, arrayKey(n), name)
		n++
	}
	for _, id := range list {
		add(nameOf(id))
	}
	for _, d := range held {
		hash := d.Hash()
		add(heldName + hex.EncodeToString(hash[:len(hashPrefix{})]))
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// described is what a server's reply to a hello says.
type described struct {
	ok    bool
	taken compressorSet
	me    string // by which name the replica set knows the server; "" outside of one
	set   string // the replica set's

	primary  bool   // it takes writes
	election string // that made it primary; later ones are greater
	told     []hashPrefix
}

// toldKey is where a gateway tells another one which dictionaries it has.
const toldKey = "cinchDictionaries"

// rewriteDescription appends the document of a reply to a hello: the client sees shown for
// compressors, nothing when that is empty, and addresses as rename gives them.
func rewriteDescription(dst, doc []byte, h *handshake, rename func([]byte) (string, bool)) ([]byte, described, error) {
	d, err := describe(doc)
	if err != nil {
		return dst, d, err
	}
	start, done := len(dst), !d.ok || len(h.shown) == 0
	standbys := h.standbys
	dst = append(dst, 0, 0, 0, 0)
	err = wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "compression":
			if !done {
				dst = appendCompression(dst, h.shown, nil)
			}
			done = true
		case toldKey:
		case supportedKey:
			dst = h.logins.appendSupported(dst, doc, e)
		case "me", "primary":
			dst = appendRenamed(dst, doc, e, rename)
		case "hosts", "passives":
			dst = appendAllRenamed(dst, doc, e, rename)
		case "arbiters":
			dst, standbys = appendAllRenamed(dst, doc, e, rename, standbys...), nil
		default:
			dst = append(dst, e.Of(doc)...)
		}
		return true
	})
	if !done {
		dst = appendCompression(dst, h.shown, nil)
	}
	dst = appendStandbys(dst, standbys)
	if d.ok && len(h.tell) > 0 {
		dst = bsoncore.AppendBinaryElement(dst, toldKey, 0, h.tell)
	}
	if h.balanced && d.ok {
		dst = bsoncore.AppendObjectIDElement(dst, "serviceId", h.service)
	}
	return wire.FinishDocument(dst, start), d, err
}

func describe(doc []byte) (d described, err error) {
	err = wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "ok":
			n, isNumber := e.Value.AsFloat64OK()
			d.ok = isNumber && n == 1
		case "compression":
			for _, id := range compressorsIn(e.Value, true) {
				d.taken.add(id)
			}
		case toldKey:
			d.told = prefixesIn(e.Value)
		case "me":
			d.me = string(wire.Text(e.Value))
		case "isWritablePrimary", "ismaster":
			yes, isBool := e.Value.BooleanOK()
			d.primary = d.primary || isBool && yes
		case "electionId":
			id, _ := e.Value.ObjectIDOK()
			d.election = string(id[:])
		case "setName":
			d.set = string(wire.Text(e.Value))
		}
		return true
	})
	return d, err
}

func prefixesIn(v bsoncore.Value) (told []hashPrefix) {
	_, b, _ := v.BinaryOK()
	for n := len(hashPrefix{}); len(b) >= n && len(told) < maxAnnounced; b = b[n:] {
		told = append(told, hashPrefix(b))
	}
	return told
}

func appendRenamed(dst, doc []byte, e wire.Element, rename func([]byte) (string, bool)) []byte {
	if name, ok := rename(wire.Text(e.Value)); ok {
		return bsoncore.AppendStringElement(dst, string(e.Key), name)
	}
	return append(dst, e.Of(doc)...)
}

// appendAllRenamed appends a list of members with other names, and more behind them.
func appendAllRenamed(dst, doc []byte, e wire.Element, rename func([]byte) (string, bool), more ...string) []byte {
	list := wire.Document(e.Value)
	if list == nil {
		return append(dst, e.Of(doc)...)
	}
	n := 0
	index, dst := bsoncore.AppendArrayElementStart(dst, string(e.Key))
	_ = wire.Elements(list, func(host wire.Element) bool {
		dst = appendRenamed(dst, list, host, rename)
		n++
		return true
	})
	for i, name := range more {
		dst = bsoncore.AppendStringElement(dst, arrayKey(n+i), name)
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// sendHello sends a client's hello with our offer. The offer goes into the first one in any
// case; later ones keep their form, since servers remember it.
func (s *session) sendHello(held bool) error {
	r := &s.req
	doc := r.document.Of(r.message)
	edit := helloEdit{offer: s.g.offer(), inject: !s.greeted, balancer: len(s.g.balancer.members) > 0, peers: s.g.cfg.Peers, logins: s.g.logins}
	if !s.greeted && slices.Contains(edit.offer, wire.BetweenGateways) {
		edit.held = s.fromServer.pin()
	}
	buf := gateway.GetBuffer(len(doc) + 128)
	edited, greeting, err := rewriteHello(buf, doc, edit)
	defer gateway.PutBuffer(edited)
	if err != nil {
		return err
	}
	if greeting.refused != "" {
		s.g.noteRefused(s.client, greeting.refused)
	}
	if greeting.offers {
		s.shown = greeting.offered
	}
	h := &handshake{shown: s.shown, asked: greeting.offers || !s.greeted, told: greeting.told, logins: s.g.logins}
	s.greeted = true
	if h.balanced = greeting.balanced; h.balanced {
		h.service = s.g.balancer.serviceID(s.member)
	}
	out := s.replaceDocument(edited)
	defer gateway.PutBuffer(out)
	if r.answered && !s.push(exchange{id: r.header.RequestID, client: plain, hello: h}, held) {
		return net.ErrClosed
	}
	return send(s.in.Account, s.upstream, gateway.FromUpstream, out, held)
}

// replaceDocument returns the request with another document, in a buffer of the pool's.
func (s *session) replaceDocument(doc []byte) []byte {
	r := &s.req
	hasChecksum := r.header.OpCode == wire.OpMsg && r.msg.Flags&wire.ChecksumPresent != 0
	out := wire.Replace(gateway.GetBuffer(len(r.message)-r.document.Len+len(doc)), r.message, r.document, doc, hasChecksum)
	if r.outer.Len != 0 {
		wire.PutLength(out[r.outer.Off : r.outer.End()+len(doc)-r.document.Len])
	}
	return out
}

// answerHello sends a client the reply to its hello. It is never compressed.
func (s *session) answerHello(h *handshake, m message, body []byte) error {
	at, hasChecksum := s.reply.Body, s.reply.Flags&wire.ChecksumPresent != 0
	if m.header.OpCode == wire.OpReply {
		var err error
		if at, err = wire.ParseReply(body); err != nil {
			return err
		}
		hasChecksum = false
	}
	if at.Len == 0 {
		return s.tellClient(body, m.held)
	}
	doc := at.Of(body)
	if slices.Contains(h.shown, wire.BetweenGateways) && !s.fromClient.on.Load() {
		h.tell = appendPrefixes(nil, s.fromClient.pin())
	}
	edited, d, err := rewriteDescription(gateway.GetBuffer(len(doc)+128), doc, h, s.renamer(doc, h))
	defer gateway.PutBuffer(edited)
	if err != nil {
		return err
	}
	if err := s.checkPrimary(h, d); err != nil {
		return err
	}
	if d.ok && h.asked {
		s.pairWithServer(d)
	}
	if d.ok {
		s.pairWithClient(h)
	}
	out := wire.Replace(gateway.GetBuffer(len(body)-at.Len+len(edited)), body, at, edited, hasChecksum)
	defer gateway.PutBuffer(out)
	return s.tellClient(out, m.held)
}
