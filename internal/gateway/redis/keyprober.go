package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// keyProber reads the values of the current request's keys and decompresses those that are compressed. It refuses
// requests that cannot be carried out because of what it has found.
type keyProber struct {
	sideConn *sideConn
	decoded  *decodeBuffer
	req      *request // the current one, as the client sent it
}

// probe finds the compressed values of keys without using the client's connection, after all that the client
// has sent before has been carried out.
func (p *keyProber) probe(keys [][]byte) sealedParts {
	if !p.sideConn.upstream.awaitReplies() {
		return sealedParts{err: errSessionEnded}
	}
	q, end := p.newProbe()
	defer end()
	for _, key := range keys {
		q.readKey(key)
	}
	return q.found
}

// newProbe starts a probe; the caller must call end.
func (p *keyProber) newProbe() (q *probe, end func()) {
	q = &probe{sideConn: p.sideConn, decoded: p.decoded, client: p.sideConn.client()}
	var cancel context.CancelFunc
	q.ctx, cancel = context.WithTimeout(p.sideConn.context(), askTimeout)
	return q, func() {
		cancel()
		if q.own != nil {
			_ = q.own.Close()
		}
	}
}

// typesOf returns the types of keys; "none" for missing ones.
func (p *keyProber) typesOf(keys [][]byte) (types []string, err error) {
	if !p.sideConn.upstream.awaitReplies() {
		return nil, errSessionEnded
	}
	q, end := p.newProbe()
	defer end()
	for _, k := range keys {
		reply, err := q.ask("TYPE", k)
		if err != nil {
			return nil, err
		}
		name, _ := reply.(string)
		types = append(types, name)
	}
	return types, nil
}

// refuse refuses the current request because of the values that its keys hold. The gateway may have read them with its
// own rights. So a user who may not run the request gets the server's permission error instead of text, and learns
// nothing about the values.
func (p *keyProber) refuse(text string) error {
	if said := p.sideConn.permissionError(p.req.args); said != "" {
		text = said
	}
	return p.sideConn.upstream.refuse(text)
}

// refuseCorrupt refuses the request for a value that cannot be decompressed.
func (p *keyProber) refuseCorrupt(err error) error {
	pattern := ""
	if args := p.req.args; len(args) > 1 {
		pattern = patternOf(args[1])
	}
	return p.refuse(p.decoded.codec.reportCorrupt(p.sideConn.upstream.life.Client.RemoteAddr(), err, pattern))
}

// probe reads keys on the second connection. If the client may not run one of the commands for it, the gateway runs
// the command as its own user on a third connection: a client that may run the request on a key need not have the
// right to read the key.
type probe struct {
	sideConn    *sideConn
	decoded     *decodeBuffer
	ctx         context.Context
	client, own *goredis.Client
	found       sealedParts
}

func (q *probe) ask(args ...any) (any, error) {
	v, err := q.sideConn.ask(q.ctx, q.client, args...)
	if !lacksRight(err) {
		return v, err
	}
	if q.own == nil {
		q.own = q.sideConn.dialer.ownClient(q.sideConn.upstream.state.database(), q.sideConn.readOnly)
	}
	return q.sideConn.ask(q.ctx, q.own, args...)
}

// readKey adds the compressed values of a key. It fetches no other values.
func (q *probe) readKey(key []byte) {
	head, err := q.ask("GETRANGE", key, 0, envelope.MaxHeaderLen-1)
	switch {
	case err == nil:
		if text, _ := head.(string); strings.HasPrefix(text, envelope.Magic) {
			q.fetch(key, []byte(text))
		}
	case !isWrongType(err.Error()):
		q.setUnreadable(err)
	case q.decoded.codec.rules().MayHoldHash(q.sideConn.upstream.state.database(), key):
		q.readFields(key)
	}
}

// fetch adds a compressed string that begins with head, if there is budget for it.
func (q *probe) fetch(key, head []byte) {
	size, err := q.ask("STRLEN", key)
	if err != nil {
		q.setUnreadable(err)
		return
	}
	n, _ := size.(int64)
	h, err := q.decoded.codec.parseHeader(head, n)
	if err == nil {
		err = q.decoded.hold(int(n) + openBytes(h))
	}
	if err != nil {
		q.found.fail(err)
		return
	}
	stored, err := q.ask("GET", key)
	text, _ := stored.(string)
	switch {
	case errors.Is(err, goredis.Nil): // deleted meanwhile
	case err != nil:
		q.setUnreadable(err)
	case strings.HasPrefix(text, envelope.Magic):
		sealed := []byte(text)
		value, err := q.decoded.codec.Sealer.Open(nil, sealed)
		if err != nil {
			q.found.fail(err)
			return
		}
		q.found.parts = append(q.found.parts, part{key: bytes.Clone(key), Known: lua.Known{Sealed: sealed, Value: value}})
	}
}

// readFields adds the compressed fields of a key that is not a string.
func (q *probe) readFields(key []byte) {
	list, err := q.ask("EVAL", lua.SealedFields, 1, key, envelope.Magic, 2*maxSealedFields)
	if err != nil && !isWrongType(err.Error()) { // no scripts for this user
		length, _ := q.ask("HLEN", key)
		if n, _ := length.(int64); n > maxSealedFields {
			q.found.fail(errHashTooLarge)
			return
		}
		list, err = q.ask("HGETALL", key)
	}
	if err != nil {
		if !isWrongType(err.Error()) {
			q.setUnreadable(err)
		}
		return
	}
	pairs := asStrings(list)
	if len(pairs) > 2*maxSealedFields {
		q.found.fail(errHashTooLarge)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.found.add(q.decoded, key, []byte(pairs[i]), []byte(pairs[i+1]))
	}
}

// setUnreadable records that a key can't be read.
func (q *probe) setUnreadable(err error) {
	text := err.Error()
	var answer goredis.Error
	if !errors.As(err, &answer) {
		q.decoded.codec.Stats.Error("second_connection")
		q.decoded.codec.log.Warn("second connection failed", "err", err)
		text = "ERR cinch: can't check whether a key holds a compressed value: " + text
	}
	q.found.setUnreadable(text)
}

// The fields of a hash may expire since Redis 7.4 and Valkey 9, and HSET, which writes a decompressed value
// in place, ends that. So the gateway reads the expiry before, and sets it again in the same step:
//
//	HPEXPIRETIME key FIELDS 1 field
//	HSET key field value
//	HPEXPIREAT key time FIELDS 1 field   if there was a time
//
// HSETEX … KEEPTTL, which only newer servers have, would do the same for a user with the right to it.

// part is one compressed value of a key: a string, or one field of a hash.
type part struct {
	key, field []byte // field is nil for a string
	lua.Known
	expires []byte // expiry of the field in Unix milliseconds; nil: none
}

// sealedParts holds the compressed values found in some keys.
type sealedParts struct {
	parts      []part
	err        error
	unreadable string // the server's error for a key that could not be read
}

// restoreRequest returns the request that replaces the part's value by its envelope, if the value is unchanged.
func (p *part) restoreRequest() [][]byte {
	return append(p.put(p.Sealed)[:3:3], []byte("IFEQ"), p.Value, []byte("KEEPTTL"))
}

// keepExpiry returns the request that sets the field's expiry again; nil for none.
func (p *part) keepExpiry() [][]byte {
	if p.expires == nil {
		return nil
	}
	return [][]byte{[]byte("HPEXPIREAT"), p.key, p.expires, []byte("FIELDS"), []byte("1"), p.field}
}

// put returns the request that stores b in place of the part.
func (p *part) put(b []byte) [][]byte {
	if p.field != nil {
		return [][]byte{[]byte("HSET"), p.key, p.field, b}
	}
	return [][]byte{[]byte("SET"), p.key, b, []byte("XX"), []byte("KEEPTTL")}
}

// setUnreadable records the error text of the first key that can't be read.
func (f *sealedParts) setUnreadable(text string) {
	if f.unreadable == "" {
		f.unreadable = text
	}
}

// add decompresses stored if it is an envelope, and adds it as a part.
func (f *sealedParts) add(s *decodeBuffer, key, field, stored []byte) {
	if !envelope.IsSealed(stored) || f.err != nil {
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

func (f *sealedParts) addHash(s *decodeBuffer, key []byte, pairs [][]byte) {
	for i := 0; i+1 < len(pairs); i += 2 {
		f.add(s, key, pairs[i], pairs[i+1])
	}
}

func beginsWithMagic(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return envelope.IsSealed(p.Value) })
}

// maxSealedFields limits the compressed fields of a hash that are decompressed in place for one command.
const maxSealedFields = 10_000

var errHashTooLarge = fmt.Errorf("%w: the hash has more compressed fields than one command may decompress in place", envelope.ErrTooLarge)

// maxAskedFields limits the fields in one request for expiries.
const maxAskedFields = 1000

// sameHash returns how many parts from the first on belong to the same hash, at most maxAskedFields. parts must not be
// empty.
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

// setExpiries sets the parts' expiries from the server's answer: for each field a time, -1 for none or -2 for
// no such field.
func setExpiries(parts []part, times [][]byte) {
	for i := range parts {
		if i < len(times) && len(times[i]) > 0 && times[i][0] > '0' { // '-' sorts before '0'
			parts[i].expires = times[i]
		}
	}
}
