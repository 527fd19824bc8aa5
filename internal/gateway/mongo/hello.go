package mongo

import (
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// pairName is listed among the compressors in handshakes. In a hello it says that the client is a gateway, in the reply
// that the server is a gateway that accepts links.
const pairName = "cinch-link"

// helloForServer returns a client's hello with the gateway's offer of compressors, for the server, in a
// buffer of the pool. The first hello always gets the offer. Later ones get it only if they have a list of
// compressors, since servers remember the first offer.
func (s *session) helloForServer(r *request) (out []byte, h *handshake, err error) {
	doc := r.document.Of(r.plain)
	edit := helloEdit{inject: !s.helloSent, balancer: s.g.balancer != nil, logins: s.g.logins}
	if s.toServer.stream == nil { // else the link compresses
		edit.offer = s.offer()
	}
	edited, hello, err := rewriteHello(memory.GetBuffer(len(doc)+128), doc, edit)
	defer memory.PutBuffer(edited)
	if err != nil {
		return nil, nil, err
	}
	if hello.refusedMechanism != "" {
		s.g.logins.recordRefused(s.Client, hello.refusedMechanism)
	}
	if hello.hasOffer {
		s.clientCompressors = hello.offered
		if hello.byGateway && s.g.cfg.Peers {
			s.nearClient.Store(true)
		}
	}
	h = &handshake{clientCompressors: s.clientCompressors, acceptsLinks: s.g.acceptsLinks() && s.nearClient.Load(), offerSent: hello.hasOffer || !s.helloSent, offer: edit.offer, logins: s.g.logins, loadBalanced: hello.loadBalanced}
	if h.loadBalanced {
		h.serviceID = s.g.balancer.serviceID(s.memberSession.member)
	}
	s.helloSent = true
	return r.withDocument(edited), h, nil
}

// helloForClient returns the server's reply to a hello, rewritten for the client, in a buffer of the pool.
func (s *session) helloForClient(h *handshake, r *reply) (out []byte, err error) {
	if r.docErr != nil {
		return nil, r.docErr
	}
	doc := r.doc
	d, err := parseHelloReply(doc)
	if err != nil {
		return nil, err
	}
	edited, err := rewriteHelloReply(memory.GetBuffer(len(doc)+128), doc, d, h, s.renamer(d, h))
	defer memory.PutBuffer(edited)
	if err != nil {
		return nil, err
	}
	if h.loadBalanced {
		if err := s.g.balancer.checkHello(&s.memberSession, d); err != nil {
			return nil, err
		}
	}
	if d.ok && h.offerSent {
		var accepted compressorSet
		for _, id := range h.offer {
			if d.accepted.has(id) {
				accepted.add(id)
			}
		}
		s.accepted.Store(uint32(accepted))
		s.g.near.heard(s.memberSession.member, d)
	}
	if d.ok {
		for _, id := range h.clientCompressors {
			s.offered.Or(1 << id)
		}
		if d.loggedIn {
			s.authGate.Open()
		}
	}
	return r.withDocument(edited), nil
}

// renamer returns a function that replaces members' addresses by those that the client must see. The reply to
// a hello contains the server's own name, which this gateway stands for from now on. A client that is a
// gateway gets the members' own names, and replaces them itself: it knows all members, while this gateway
// often knows only one.
func (s *session) renamer(d helloReply, h *handshake) func([]byte) (string, bool) {
	unchanged := func([]byte) (string, bool) { return "", false }
	if s.g.balancer != nil {
		return unchanged
	}
	if d.me != "" {
		s.g.addresses.learnMember(d.me)
	}
	if s.nearClient.Load() {
		return unchanged
	}
	if d.me != "" {
		h.standbys = s.g.addresses.standbysOf(d.setName)
	}
	return func(member []byte) (string, bool) {
		at, ok := s.g.addresses.addressOf(member, s.Client.LocalAddr())
		if !ok {
			s.g.addresses.warnDirect(member)
		}
		return at, ok
	}
}

// helloFields holds the relevant fields of a client's hello.
type helloFields struct {
	hasOffer  bool                // it has a list of compressors
	offered   []wire.CompressorID // the supported ones of that list, in the client's order
	byGateway bool                // the list says that the client is a gateway

	loadBalanced     bool   // the client asks for a load balancer
	refusedMechanism string // the mechanism of a login that was removed; "": none
}

// helloEdit lists the changes to make to a hello.
type helloEdit struct {
	offer    []wire.CompressorID // replaces the client's list
	inject   bool                // make the offer even if the client makes none
	balancer bool                // remove loadBalanced, which servers refuse
	logins   *loginFilter        // decides which logins may begin in it
}

// rewriteHello appends the document of a hello with edit applied. A list of compressors that it writes begins with
// pairName, which says that the client is a gateway. Everything else stays unchanged.
func rewriteHello(dst, doc []byte, edit helloEdit) ([]byte, helloFields, error) {
	var g helloFields
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	err := wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "compression":
		case speculativeKey:
			if refused := edit.logins.refusedSpeculative(e.Value); refused != "" {
				g.refusedMechanism = refused
				return true
			}
			dst = append(dst, e.Of(doc)...)
			return true
		case "loadBalanced":
			if wanted, ok := e.Value.BooleanOK(); edit.balancer && ok {
				g.loadBalanced = wanted
				return true
			}
			fallthrough
		default:
			dst = append(dst, e.Of(doc)...)
			return true
		}
		if !g.hasOffer {
			dst = appendCompression(dst, edit.offer, true)
		}
		g.hasOffer = true
		g.offered, g.byGateway = compressorsIn(e.Value)
		return true
	})
	if edit.inject && !g.hasOffer {
		dst = appendCompression(dst, edit.offer, true)
	}
	return wire.FinishDocument(dst, start), g, err
}

// handshake is the state of a hello that waits for its reply.
type handshake struct {
	clientCompressors []wire.CompressorID // offered by the client and supported
	offer             []wire.CompressorID // made to the server
	offerSent         bool                // the hello sent to the server contained the offer
	acceptsLinks      bool                // tell the client, a gateway, that this one accepts links

	logins *loginFilter // filters the mechanisms that the client is told

	standbys []string // of other gateways, for clients that are not gateways

	loadBalanced bool // the client asked for a load balancer, and is told serviceID
	serviceID    [12]byte
}

// helloReply holds the relevant fields of a server's reply to a hello.
type helloReply struct {
	ok       bool
	accepted compressorSet
	me       string // the server's name in its replica set; "" outside of one
	setName  string // name of the replica set

	loggedIn   bool   // the login that the hello began has succeeded
	isPrimary  bool   // it accepts writes
	electionID string // ID of the election that made it primary; later ones are greater
	// acceptsLinks means that the server is a gateway, and accepts links.
	acceptsLinks bool
}

// rewriteHelloReply appends doc, the document of a reply to a hello, rewritten for the client. d holds doc's parsed
// fields. The client gets h.clientCompressors as compressors, no list if that is empty and it can open no links, and
// the addresses that rename returns.
func rewriteHelloReply(dst, doc []byte, d helloReply, h *handshake, rename func([]byte) (string, bool)) ([]byte, error) {
	start, done := len(dst), !d.ok || len(h.clientCompressors) == 0 && !h.acceptsLinks
	standbys := h.standbys
	dst = append(dst, 0, 0, 0, 0)
	err := wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "compression":
			if !done {
				dst = appendCompression(dst, h.clientCompressors, h.acceptsLinks)
			}
			done = true
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
		dst = appendCompression(dst, h.clientCompressors, h.acceptsLinks)
	}
	dst = appendStandbys(dst, standbys)
	if h.loadBalanced && d.ok {
		dst = bsoncore.AppendObjectIDElement(dst, "serviceId", h.serviceID)
	}
	return wire.FinishDocument(dst, start), err
}

// parseHelloReply parses the document of a reply to a hello.
func parseHelloReply(doc []byte) (d helloReply, err error) {
	err = wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "ok":
			n, isNumber := e.Value.AsFloat64OK()
			d.ok = isNumber && n == 1
		case "compression":
			var list []wire.CompressorID
			list, d.acceptsLinks = compressorsIn(e.Value)
			for _, id := range list {
				d.accepted.add(id)
			}
		case speculativeKey:
			if doc := wire.Document(e.Value); doc != nil {
				d.loggedIn = loginEnded(doc)
			}
		case "me":
			d.me = string(wire.Text(e.Value))
		case "isWritablePrimary", "ismaster":
			yes, isBool := e.Value.BooleanOK()
			d.isPrimary = d.isPrimary || isBool && yes
		case "electionId":
			id, _ := e.Value.ObjectIDOK()
			d.electionID = string(id[:])
		case "setName":
			d.setName = string(wire.Text(e.Value))
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

// appendAllRenamed appends a list of members with their names replaced, and more after them.
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

// appendStandbys appends a list of arbiters to a description that has none.
func appendStandbys(dst []byte, standbys []string) []byte {
	if len(standbys) == 0 {
		return dst
	}
	index, dst := bsoncore.AppendArrayElementStart(dst, "arbiters")
	for i, addr := range standbys {
		dst = bsoncore.AppendStringElement(dst, arrayKey(i), addr)
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// compressorsIn parses a list of compressor names, without duplicates and unknown names. byGateway means that the list
// has pairName.
func compressorsIn(v bsoncore.Value) (list []wire.CompressorID, byGateway bool) {
	_ = wire.Elements(wire.Document(v), func(e wire.Element) bool {
		name := wire.Text(e.Value)
		if id := compressorNamed(name); id != plain && !slices.Contains(list, id) {
			list = append(list, id)
		}
		byGateway = byGateway || string(name) == pairName
		return true
	})
	return list, byGateway
}

// appendCompression appends a list of compressors, with pairName first if pair is true.
func appendCompression(dst []byte, list []wire.CompressorID, pair bool) []byte {
	index, dst := bsoncore.AppendArrayElementStart(dst, "compression")
	n := 0
	add := func(name string) {
		dst = bsoncore.AppendStringElement(dst, arrayKey(n), name)
		n++
	}
	if pair {
		add(pairName)
	}
	for _, id := range list {
		add(nameOf(id))
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// arrayKey returns the key of an array's n-th element.
func arrayKey(n int) string { return strconv.Itoa(n) }
