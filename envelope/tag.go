package envelope

import (
	"crypto/subtle"

	"github.com/cinch-layer/cinch/codec"
)

// The tag of an envelope that names a dictionary proves that its writer had the dictionary. Otherwise a
// client without a right to the dictionary could plant an envelope whose payload copies pieces of it, and a
// reader that has the right would reveal them. So the tag is compared before anything is decoded.

// tag returns the correct tag of a sealed envelope with header h.
func (h Header) tag(d *codec.Dict, sealed []byte) [TagLen]byte {
	return d.Tag(sealed[:h.tagAt()], sealed[h.tagAt()+TagLen:])
}

// tagAt returns the offset of the tag in the envelope.
func (h Header) tagAt() int {
	at := h.Len - len(h.Ext) - dictLen - TagLen
	if h.IsForeign() {
		at -= extWordLen
	}
	return at
}

// checkTag returns ErrTag unless the envelope's tag is correct for the dictionary.
func (h Header) checkTag(d *codec.Dict, sealed []byte) error {
	want := h.tag(d, sealed)
	if subtle.ConstantTimeCompare(want[:], h.Tag[:]) != 1 {
		return ErrTag
	}
	return nil
}
