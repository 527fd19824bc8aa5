package codec

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// TagLen is the length in bytes of a result of [Dict.Tag].
const TagLen = 8

// tagLabel precedes the content in the input of the key's hash, so that the key can't be derived from the
// dictionary's own hash, which is public.
const tagLabel = "cinch tag v1"

// Tag returns a keyed hash of the concatenated parts: HMAC-SHA256 truncated to its first TagLen bytes. Its
// key is the SHA-256 of a label and the dictionary's content, so that it can't be computed without the
// content.
func (d *Dict) Tag(parts ...[]byte) (tag [TagLen]byte) {
	t, _ := d.taggers.Get().(*tagger)
	if t == nil {
		t = &tagger{mac: hmac.New(sha256.New, d.tagKey())}
	}
	for _, p := range parts {
		t.mac.Write(p)
	}
	copy(tag[:], t.mac.Sum(t.sum[:0]))
	t.mac.Reset()
	d.taggers.Put(t)
	return tag
}

// tagger is kept for the next tag of the same dictionary: its mac holds the hash's states after the key,
// which would take two blocks to compute again.
type tagger struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// tagKey hashes the content once, when the first tag is needed: dictionaries of streams need none.
func (d *Dict) tagKey() []byte {
	d.keyed.Do(func() {
		h := sha256.New()
		h.Write([]byte(tagLabel))
		h.Write(d.content)
		d.key = h.Sum(nil)
	})
	return d.key
}

// tags is the state of a Dict for its tags.
type tags struct {
	keyed   sync.Once
	key     []byte
	taggers sync.Pool // *tagger
}
