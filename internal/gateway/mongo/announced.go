package mongo

import (
	"bytes"
	"encoding/hex"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Gateways tell each other in the handshake which dictionaries they have, so that those need
// not be sent: the one that asks among the names of its compressors, the other in a field.

// hashPrefix is how dictionaries are announced: the first bytes of the SHA-256.
type hashPrefix [8]byte

const maxAnnounced = 16 // dictionaries

// heldName begins the names in a list of compressors that stand for dictionaries: servers and
// gateways ignore names that they don't know.
const heldName = pairName + "-"

// toldKey is where a gateway tells another one which dictionaries it has.
const toldKey = "cinchDictionaries"

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

func prefixesIn(v bsoncore.Value) (told []hashPrefix) {
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
