package mongo

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// helloForServer returns a client's hello with the gateway's offer of compressors, for the server, in a
// buffer of the pool. The first hello always gets the offer. Later ones get it only if they have a list of
// compressors, since servers remember the first offer.
func (s *session) helloForServer(r *request) (out []byte, h *handshake, err error) {
	doc := r.document.Of(r.plain)
	edit := helloEdit{offer: s.offer(), inject: !s.helloSent, balancer: s.g.balancer != nil, peers: s.g.cfg.Peers, logins: s.g.logins}
	if !s.helloSent && slices.Contains(edit.offer, wire.BetweenGateways) {
		edit.dicts = s.peerFrames.serverIn.pin()
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
	}
	h = &handshake{clientCompressors: s.clientCompressors, offerSent: hello.hasOffer || !s.helloSent, offer: edit.offer, announced: hello.announced, logins: s.g.logins, loadBalanced: hello.loadBalanced}
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
	if slices.Contains(h.clientCompressors, wire.BetweenGateways) && !s.peerFrames.clientIn.on.Load() {
		h.ownHashes = appendPrefixes(nil, s.peerFrames.clientIn.pin())
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
		s.peerFrames.withServer(d, h.offer)
	}
	if d.ok {
		s.peerFrames.withClient(h)
		if d.loggedIn {
			s.door.Open()
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
	if slices.Contains(h.clientCompressors, wire.BetweenGateways) {
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
	announced []hashPrefix        // dictionaries that the client says it has

	loadBalanced     bool   // the client asks for a load balancer
	refusedMechanism string // the mechanism of a login that was removed; "": none
}

// helloEdit lists the changes to make to a hello.
type helloEdit struct {
	offer    []wire.CompressorID // replaces the client's list
	dicts    []*codec.Dict       // dictionaries to announce to a gateway behind this one
	inject   bool                // make the offer even if the client makes none
	balancer bool                // remove loadBalanced, which servers refuse
	peers    bool                // clients may be gateways
	logins   *loginFilter        // decides which logins may begin in it
}

// rewriteHello appends the document of a hello with edit applied. Everything else stays unchanged.
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
			dst = appendCompression(dst, edit.offer, edit.dicts)
		}
		g.hasOffer = true
		g.offered = compressorsIn(e.Value, edit.peers)
		if slices.Contains(g.offered, wire.BetweenGateways) {
			g.announced = announcedIn(e.Value)
		}
		return true
	})
	if edit.inject && !g.hasOffer {
		dst = appendCompression(dst, edit.offer, edit.dicts)
	}
	return wire.FinishDocument(dst, start), g, err
}

// handshake is the state of a hello that waits for its reply.
type handshake struct {
	clientCompressors []wire.CompressorID // offered by the client and supported
	offer             []wire.CompressorID // made to the server
	offerSent         bool                // the hello sent to the server contained the offer
	announced         []hashPrefix        // dictionaries that the client has, if it is a gateway
	ownHashes         []byte              // hashes of the gateway's own dictionaries, for a client that is a gateway

	logins *loginFilter // decides which mechanisms the client is told

	standbys []string // of other gateways, for clients that are no gateways

	loadBalanced bool     // the client asked for a load balancer
	serviceID    [12]byte // and is told this ID
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
	announced  []hashPrefix
}

// rewriteHelloReply appends the document of a reply to a hello, of which d holds the fields. The client
// gets h.clientCompressors as compressors, no list if that is empty, and the addresses that rename returns.
func rewriteHelloReply(dst, doc []byte, d helloReply, h *handshake, rename func([]byte) (string, bool)) ([]byte, error) {
	start, done := len(dst), !d.ok || len(h.clientCompressors) == 0
	standbys := h.standbys
	dst = append(dst, 0, 0, 0, 0)
	err := wire.Elements(doc, func(e wire.Element) bool {
		switch string(e.Key) {
		case "compression":
			if !done {
				dst = appendCompression(dst, h.clientCompressors, nil)
			}
			done = true
		case dictionariesKey:
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
		dst = appendCompression(dst, h.clientCompressors, nil)
	}
	dst = appendStandbys(dst, standbys)
	if d.ok && len(h.ownHashes) > 0 {
		dst = bsoncore.AppendBinaryElement(dst, dictionariesKey, 0, h.ownHashes)
	}
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
			for _, id := range compressorsIn(e.Value, true) {
				d.accepted.add(id)
			}
		case dictionariesKey:
			d.announced = parsePrefixes(e.Value)
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

// compressorsIn parses a list of compressor names. It leaves out duplicates and unknown names, and the
// compressor of gateways unless gateway says that the other end may be one.
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
		add(dictNamePrefix + hex.EncodeToString(hash[:len(hashPrefix{})]))
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// arrayKey returns the key of an array's n-th element.
func arrayKey(n int) string { return strconv.Itoa(n) }

// Gateways announce in the handshake which dictionaries they have, so that those need not be sent: in the
// hello among the names of the compressors, in the reply in a separate field.

// hashPrefix announces a dictionary: the first bytes of its SHA-256.
type hashPrefix [8]byte

const maxAnnounced = 16 // dictionaries

// dictNamePrefix begins the names in a list of compressors that announce dictionaries: servers and gateways ignore
// unknown names.
const dictNamePrefix = pairName + "-"

// dictionariesKey is the field in which a gateway announces its dictionaries in the reply to a hello.
const dictionariesKey = "cinchDictionaries"

// announcedIn returns the dictionaries announced in a gateway's list of compressors.
func announcedIn(v bsoncore.Value) (told []hashPrefix) {
	_ = wire.Elements(wire.Document(v), func(e wire.Element) bool {
		var p hashPrefix
		text, ok := bytes.CutPrefix(wire.Text(e.Value), []byte(dictNamePrefix))
		if ok && len(text) == hex.EncodedLen(len(p)) && len(told) < maxAnnounced {
			if _, err := hex.Decode(p[:], text); err == nil {
				told = append(told, p)
			}
		}
		return true
	})
	return told
}

func parsePrefixes(v bsoncore.Value) (told []hashPrefix) {
	_, b, _ := v.BinaryOK()
	for n := len(hashPrefix{}); len(b) >= n && len(told) < maxAnnounced; b = b[n:] {
		told = append(told, hashPrefix(b))
	}
	return told
}

func appendPrefixes(dst []byte, dicts []*codec.Dict) []byte {
	for _, d := range dicts {
		hash := d.Hash()
		dst = append(dst, hash[:len(hashPrefix{})]...)
	}
	return dst
}
