package mongo

import (
	"net"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// handshake is a hello that waits for its reply.
type handshake struct {
	shown []wire.CompressorID // what the client offered and we have
	asked bool                // the request that went upstream carried our offer

	balanced bool     // the client takes us for a load balancer
	service  [12]byte // and sees this id
}

// greeting is what a client's hello says.
type greeting struct {
	offers  bool                // there is a list of compressors
	offered []wire.CompressorID // those of it that we have, in the client's order

	balanced bool // the client wants a load balancer
}

// rewriteHello appends the document of a hello with our offer in place of the client's. With
// inject it gets one even when the client has none. A balancer takes out the question for
// one, which servers refuse. Everything else stays as it is.
func rewriteHello(dst, doc []byte, offer []wire.CompressorID, inject, balancer bool) ([]byte, greeting, error) {
	var g greeting
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	err := wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "compression":
		case "loadBalanced":
			if wanted, ok := e.Value.BooleanOK(); balancer && ok {
				g.balanced = wanted
				return true
			}
			fallthrough
		default:
			dst = append(dst, e.Of(doc)...)
			return true
		}
		if !g.offers {
			dst = appendCompression(dst, offer)
		}
		g.offers = true
		g.offered = compressorsIn(e.Value)
		return true
	})
	if inject && !g.offers {
		dst = appendCompression(dst, offer)
	}
	return wire.FinishDocument(dst, start), g, err
}

// compressorsIn reads a list of names, each one once, and leaves out what we don't know.
func compressorsIn(v bsoncore.Value) []wire.CompressorID {
	var list []wire.CompressorID
	_ = wire.Elements(wire.Document(v), func(e wire.Element) bool {
		id := compressorNamed(wire.Text(e.Value))
		if id != plain && !slices.Contains(list, id) {
			list = append(list, id)
		}
		return true
	})
	return list
}

func appendCompression(dst []byte, list []wire.CompressorID) []byte {
	index, dst := bsoncore.AppendArrayElementStart(dst, "compression")
	for i, id := range list {
		a, _ := algorithmOf(id)
		dst = bsoncore.AppendStringElement(dst, strconv.Itoa(i), a.name)
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

	primary bool // it takes writes
}

// rewriteDescription appends the document of a reply to a hello: the client sees shown for
// compressors, nothing when that is empty, and addresses as rename gives them.
func rewriteDescription(dst, doc []byte, h *handshake, rename func([]byte) (string, bool)) ([]byte, described, error) {
	d, err := describe(doc)
	if err != nil {
		return dst, d, err
	}
	start, done := len(dst), !d.ok || len(h.shown) == 0
	dst = append(dst, 0, 0, 0, 0)
	err = wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "compression":
			if !done {
				dst = appendCompression(dst, h.shown)
			}
			done = true
		case "me", "primary":
			dst = appendRenamed(dst, doc, e, rename)
		case "hosts", "passives", "arbiters":
			dst = appendAllRenamed(dst, doc, e, rename)
		default:
			dst = append(dst, e.Of(doc)...)
		}
		return true
	})
	if !done {
		dst = appendCompression(dst, h.shown)
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
			for _, id := range compressorsIn(e.Value) {
				d.taken.add(id)
			}
		case "me":
			d.me = string(wire.Text(e.Value))
		case "isWritablePrimary", "ismaster":
			yes, isBool := e.Value.BooleanOK()
			d.primary = d.primary || isBool && yes
		case "setName":
			d.set = string(wire.Text(e.Value))
		}
		return true
	})
	return d, err
}

func appendRenamed(dst, doc []byte, e wire.Element, rename func([]byte) (string, bool)) []byte {
	if name, ok := rename(wire.Text(e.Value)); ok {
		return bsoncore.AppendStringElement(dst, string(e.Key), name)
	}
	return append(dst, e.Of(doc)...)
}

func appendAllRenamed(dst, doc []byte, e wire.Element, rename func([]byte) (string, bool)) []byte {
	list := wire.Document(e.Value)
	if list == nil {
		return append(dst, e.Of(doc)...)
	}
	index, dst := bsoncore.AppendArrayElementStart(dst, string(e.Key))
	_ = wire.Elements(list, func(host wire.Element) bool {
		dst = appendRenamed(dst, list, host, rename)
		return true
	})
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// sendHello sends a client's hello with our offer. The offer goes into the first one in any
// case; later ones keep their form, since servers remember it.
func (s *session) sendHello(held bool) error {
	r := &s.req
	doc := r.document.Of(r.message)
	offer := s.g.offer()
	buf := gateway.GetBuffer(len(doc) + 128)
	edited, greeting, err := rewriteHello(buf, doc, offer, !s.greeted, len(s.g.balancer.members) > 0)
	defer gateway.PutBuffer(edited)
	if err != nil {
		return err
	}
	if greeting.offers {
		s.shown = greeting.offered
	}
	h := &handshake{shown: s.shown, asked: greeting.offers || !s.greeted}
	s.greeted = true
	if h.balanced = greeting.balanced; h.balanced {
		h.service = s.g.balancer.serviceID(s.member)
	}
	out := s.replaceDocument(edited)
	defer gateway.PutBuffer(out)
	if r.answered && !s.push(exchange{id: r.header.RequestID, client: plain, hello: h}, held) {
		return net.ErrClosed
	}
	return s.in.patience.write(s.upstream, out, held)
}

// replaceDocument returns the request with another document, in a buffer of the pool's.
func (s *session) replaceDocument(doc []byte) []byte {
	r := &s.req
	hasChecksum := r.header.OpCode == wire.OpMsg && r.msg.Flags&wire.ChecksumPresent != 0
	out := wire.Replace(gateway.GetBuffer(len(r.message)+len(doc)), r.message, r.document, doc, hasChecksum)
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
		return s.out.patience.write(s.client, body, m.held)
	}
	doc := at.Of(body)
	edited, d, err := rewriteDescription(gateway.GetBuffer(len(doc)+128), doc, h, s.renamer(doc))
	defer gateway.PutBuffer(edited)
	if err != nil {
		return err
	}
	if err := s.checkPrimary(h, d); err != nil {
		return err
	}
	if d.ok && h.asked {
		s.taken.Store(uint32(d.taken & s.g.offered()))
	}
	out := wire.Replace(gateway.GetBuffer(len(body)+len(edited)), body, at, edited, hasChecksum)
	defer gateway.PutBuffer(out)
	return s.out.patience.write(s.client, out, m.held)
}
