package mongo

import (
	"net"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// hellos are a session's handshakes: the request pump rewrites what the client says, and the
// reply pump what the server answers.
type hellos struct {
	rules     *rules
	sides     *sides
	logins    *logins
	addresses *addresses
	balancer  *balancer
	follower  *follower
	client    net.Conn
	peers     bool // clients may be gateways

	// of the request pump
	greeted bool                // a handshake was sent
	shown   []wire.CompressorID // what the client may see in the replies to handshakes
}

// request returns what goes upstream for a client's hello, with our offer, in a buffer of the
// pool's. The offer goes into the first one in any case; later ones keep their form, since
// servers remember it.
func (h *hellos) request(r *request) (out []byte, waits *handshake, err error) {
	doc := r.document.Of(r.message)
	edit := helloEdit{offer: h.rules.offer(), inject: !h.greeted, balancer: h.balancer.on(), peers: h.peers, logins: h.logins}
	if !h.greeted && slices.Contains(edit.offer, wire.BetweenGateways) {
		edit.held = h.sides.fromServer.pin()
	}
	edited, said, err := rewriteHello(gateway.GetBuffer(len(doc)+128), doc, edit)
	defer gateway.PutBuffer(edited)
	if err != nil {
		return nil, nil, err
	}
	if said.refused != "" {
		h.logins.note(h.client, said.refused)
	}
	if said.offers {
		h.shown = said.offered
	}
	waits = &handshake{shown: h.shown, asked: said.offers || !h.greeted, told: said.told, logins: h.logins, balanced: said.balanced}
	if waits.balanced {
		waits.service = h.balancer.serviceID(h.follower.member)
	}
	h.greeted = true
	return r.replaced(edited), waits, nil
}

// answer returns what the client is told in reply to its hello, in a buffer of the pool's.
func (h *hellos) answer(waits *handshake, r *reply) (out []byte, err error) {
	if r.noDoc != nil {
		return nil, r.noDoc
	}
	doc := r.doc()
	d, err := describe(doc)
	if err != nil {
		return nil, err
	}
	if slices.Contains(waits.shown, wire.BetweenGateways) && !h.sides.fromClient.on.Load() {
		waits.tell = appendPrefixes(nil, h.sides.fromClient.pin())
	}
	edited, err := rewriteDescription(gateway.GetBuffer(len(doc)+128), doc, d, waits, h.renamer(d, waits))
	defer gateway.PutBuffer(edited)
	if err != nil {
		return nil, err
	}
	if waits.balanced {
		if err := h.balancer.checkHello(h.follower, d); err != nil {
			return nil, err
		}
	}
	if d.ok && waits.asked {
		h.sides.withServer(d, h.rules.offered())
	}
	if d.ok {
		h.sides.withClient(waits)
	}
	return r.replaced(edited), nil
}

// renamer gives the addresses of members as the client must see them. A hello tells what the
// server calls itself: that name is this gateway's from now on. Another gateway sees the members'
// own names, and puts its addresses in their place: it knows of all members, and we often of one.
func (h *hellos) renamer(d described, waits *handshake) func([]byte) (string, bool) {
	asItIs := func([]byte) (string, bool) { return "", false }
	if h.balancer.on() {
		return asItIs
	}
	if d.me != "" {
		h.addresses.learnMember(d.me)
	}
	if slices.Contains(waits.shown, wire.BetweenGateways) {
		return asItIs
	}
	if d.me != "" {
		waits.standbys = h.addresses.standbysOf(d.set)
	}
	return func(member []byte) (string, bool) {
		at, ok := h.addresses.at(member, h.client.LocalAddr())
		if !ok {
			h.addresses.warnDirect(member)
		}
		return at, ok
	}
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
	logins   *logins             // that may begin in it
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
