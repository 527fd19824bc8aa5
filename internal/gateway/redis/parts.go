package redis

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// The fields of a hash may expire since Redis 7.4 and Valkey 9, and HSET, with which a value is put
// back, ends that. So the gateway looks before it puts one back, and sets the time again in the same step:
//
//	HPEXPIRETIME key FIELDS 1 field
//	HSET key field value
//	HPEXPIREAT key time FIELDS 1 field   where there was a time
//
// HSETEX … KEEPTTL, which only newer servers have, would do the same for a user with the right to it.

// part is one sealed value of a key: a string, or one field of a hash.
type part struct {
	key, field []byte // field is nil for a string
	lua.Known
	expires []byte // when the field does, in milliseconds; nil: it doesn't
}

type sealedParts struct {
	parts  []part
	err    error
	unseen string // why a key could not be looked at, as the server says it
}

type watchOutcome struct{ refusal string } // the server's error to WATCH

// restored is the request that has the part's envelope take its place where its value is.
func (p *part) restored() [][]byte {
	return append(p.put(p.Sealed)[:3:3], []byte("IFEQ"), p.Value, []byte("KEEPTTL"))
}

// keep is the request that sets the part's time again after it has been put back, nil for none.
func (p *part) keep() [][]byte {
	if p.expires == nil {
		return nil
	}
	return [][]byte{[]byte("HPEXPIREAT"), p.key, p.expires, []byte("FIELDS"), []byte("1"), p.field}
}

// put is the request that puts b in the part's place.
func (p *part) put(b []byte) [][]byte {
	if p.field != nil {
		return [][]byte{[]byte("HSET"), p.key, p.field, b}
	}
	return [][]byte{[]byte("SET"), p.key, b, []byte("XX"), []byte("KEEPTTL")}
}

// hidden notes that a key can't be looked at, if so it is.
func (f *sealedParts) hidden(text string, is bool) {
	if is && f.unseen == "" {
		f.unseen = text
	}
}

// add opens one envelope; anything else needs no putting back.
func (f *sealedParts) add(s *stash, key, field, stored []byte) {
	if !cinch.IsSealed(stored) || f.err != nil {
		return
	}
	kv, err := s.open(stored)
	if err != nil {
		f.err = err
		return
	}
	f.parts = append(f.parts, part{key: bytes.Clone(key), field: field, Known: kv})
}

func (f *sealedParts) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *sealedParts) addHash(s *stash, key []byte, pairs [][]byte) {
	for i := 0; i+1 < len(pairs); i += 2 {
		f.add(s, key, pairs[i], pairs[i+1])
	}
}

func refusalOf(watch *op) (o watchOutcome) {
	if watch.answer.isError() {
		o.refusal = watch.answer.text
	}
	return o
}

func beginsWithMagic(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return cinch.IsSealed(p.Value) })
}

// maxSealedFields is how many sealed fields of a hash are put back for one command.
const maxSealedFields = 10_000

var errHashTooLarge = fmt.Errorf("%w: the hash holds more sealed fields than are put back at once", cinch.ErrTooLarge)

// maxAskedFields is how many fields one request asks about.
const maxAskedFields = 1000

// sameHash is how many of the parts, which are some, belong to the hash of the first.
func sameHash(parts []part) (n int) {
	for n < len(parts) && n < maxAskedFields && string(parts[n].key) == string(parts[0].key) {
		n++
	}
	return n
}

func expiryQuestion(parts []part) [][]byte {
	words := append(make([][]byte, 0, 4+len(parts)), []byte("HPEXPIRETIME"), parts[0].key, []byte("FIELDS"), itoa(len(parts)))
	for i := range parts {
		words = append(words, parts[i].field)
	}
	return words
}

// setExpiries takes the server's answer: for each field a time, or -1 for none and -2 for no such field.
func setExpiries(parts []part, times [][]byte) {
	for i := range parts {
		if i < len(times) && len(times[i]) > 0 && times[i][0] > '0' { // -1 begins before it
			parts[i].expires = times[i]
		}
	}
}
