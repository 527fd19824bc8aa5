package cinch

import (
	"crypto/subtle"

	"github.com/cinch-layer/cinch/codec"
)

// An envelope that names a dictionary is made only with the dictionary at hand. Otherwise a client
// without a right to it could plant one whose payload copies pieces of the dictionary, and have
// a reader that has the right hand them out. So the tag is compared before anything is decoded.

// tag is what the tag of a sealed envelope, whose header is h, has to be.
func (h Header) tag(d *codec.Dict, sealed []byte) [TagLen]byte {
	return d.Tag(sealed[:h.tagAt()], sealed[h.tagAt()+TagLen:])
}

// tagAt is where in the envelope the tag begins.
func (h Header) tagAt() int {
	at := h.Len - len(h.Ext) - dictLen - TagLen
	if h.IsForeign() {
		at -= extWordLen
	}
	return at
}

// checkTag refuses an envelope whose tag is not that of its dictionary.
func (h Header) checkTag(d *codec.Dict, sealed []byte) error {
	want := h.tag(d, sealed)
	if subtle.ConstantTimeCompare(want[:], h.Tag[:]) != 1 {
		return ErrTag
	}
	return nil
}
