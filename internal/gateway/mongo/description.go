package mongo

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// handshake is a hello that waits for its reply.
type handshake struct {
	shown []wire.CompressorID // what the client offered and we have
	asked bool                // the request that went upstream carried our offer
	told  []hashPrefix        // dictionaries that the client has, if it is a gateway
	tell  []byte              // hashes of those that we have, for a client that is one

	logins *logins // that the client hears of

	standbys []string // of other gateways, for clients that are none

	balanced bool     // the client takes us for a load balancer
	service  [12]byte // and sees this id
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

// rewriteDescription appends the document of a reply to a hello, which has been described: the
// client sees shown for compressors, nothing when that is empty, and addresses as rename gives them.
func rewriteDescription(dst, doc []byte, d described, h *handshake, rename func([]byte) (string, bool)) ([]byte, error) {
	start, done := len(dst), !d.ok || len(h.shown) == 0
	standbys := h.standbys
	dst = append(dst, 0, 0, 0, 0)
	err := wire.Elements(doc, func(e wire.Element) bool {
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
	return wire.FinishDocument(dst, start), err
}

// describe reads the document of a reply to a hello.
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

// appendStandbys appends arbiters to a description that has none.
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
