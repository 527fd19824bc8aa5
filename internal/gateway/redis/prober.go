package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// prober looks at what the keys of the request at hand hold, has what is sealed opened, and answers where a request can't be carried out for what was found.
type prober struct {
	second *second
	stash  *stash
	req    *request // the one at hand, as the client has sent it
}

// probe finds the sealed values of keys without touching the client's connection,
// when all that the client has sent before has been carried out.
func (p *prober) probe(keys [][]byte) sealedParts {
	if !p.second.talk.settle() {
		return sealedParts{err: errGone}
	}
	q, end := p.begin()
	defer end()
	for _, key := range keys {
		q.look(key)
	}
	return q.found
}

// begin begins to look; end ends it.
func (p *prober) begin() (q *probe, end func()) {
	q = &probe{second: p.second, stash: p.stash, client: p.second.client()}
	var cancel context.CancelFunc
	q.ctx, cancel = context.WithTimeout(p.second.context(), askTimeout)
	return q, func() {
		cancel()
		if q.own != nil {
			_ = q.own.Close()
		}
	}
}

// typesOf asks what kinds of keys they are; "none" are not there.
func (p *prober) typesOf(keys [][]byte) (types []string, err error) {
	if !p.second.talk.settle() {
		return nil, errGone
	}
	q, end := p.begin()
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

// over refuses the request at hand for what was found at its keys. The gateway may have looked there
// by its own rights, so a user who may not run the request there hears what the server says to that,
// and not what the keys hold.
func (p *prober) over(text string) error {
	if said := p.second.forbidden(p.req.args); said != "" {
		text = said
	}
	return p.second.talk.refuse(text)
}

// broken answers for a sealed value that does not open.
func (p *prober) broken(err error) error {
	pattern := ""
	if args := p.req.args; len(args) > 1 {
		pattern = patternOf(args[1])
	}
	return p.over(p.stash.vault.sayBroken(p.second.talk.life.Client.RemoteAddr(), err, pattern))
}

// probe is one look at some keys on the second connection. What the client may not ask the gateway asks for
// itself, on a third: that a client may run a command on a key does not say that it may read it.
type probe struct {
	second      *second
	stash       *stash
	ctx         context.Context
	client, own *goredis.Client
	found       sealedParts
}

func (q *probe) ask(args ...any) (any, error) {
	v, err := q.second.ask(q.ctx, q.client, args...)
	if err == nil || !isNoRight(err.Error()) {
		return v, err
	}
	if q.own == nil {
		q.own = q.second.dialer.self(q.second.talk.st.where(), q.second.reads)
	}
	return q.second.ask(q.ctx, q.own, args...)
}

// look adds what is sealed of a key. A value that is not is never fetched.
func (q *probe) look(key []byte) {
	head, err := q.ask("GETRANGE", key, 0, cinch.MaxHeaderLen-1)
	switch {
	case err == nil:
		if text, _ := head.(string); strings.HasPrefix(text, cinch.Magic) {
			q.fetch(key, []byte(text))
		}
	case !isWrongType(err.Error()):
		q.hidden(err)
	case q.stash.vault.rules().MayHoldHash(q.second.talk.st.where(), key):
		q.fields(key)
	}
}

// fetch adds a sealed string, of which head is the beginning, when there is budget for it.
func (q *probe) fetch(key, head []byte) {
	h, err := cinch.ParseHeader(head)
	if limit := q.stash.vault.maxOpen; err == nil && h.RawLen > limit {
		err = fmt.Errorf("%w: %d bytes, at most %d are opened", cinch.ErrTooLarge, h.RawLen, limit)
	}
	if err != nil {
		q.found.fail(err)
		return
	}
	size, err := q.ask("STRLEN", key)
	if err != nil {
		q.hidden(err)
		return
	}
	n, _ := size.(int64)
	if err := q.stash.hold(int(n) + openBytes(h)); err != nil {
		q.found.fail(err)
		return
	}
	stored, err := q.ask("GET", key)
	text, _ := stored.(string)
	switch {
	case errors.Is(err, goredis.Nil): // deleted meanwhile
	case err != nil:
		q.hidden(err)
	case strings.HasPrefix(text, cinch.Magic):
		sealed := []byte(text)
		value, err := q.stash.vault.Sealer.Open(nil, sealed)
		if err != nil {
			q.found.fail(err)
			return
		}
		q.found.parts = append(q.found.parts, part{key: bytes.Clone(key), Known: lua.Known{Sealed: sealed, Value: value}})
	}
}

// fields adds the sealed fields of a key that is no string.
func (q *probe) fields(key []byte) {
	list, err := q.ask("EVAL", lua.SealedFields, 1, key, cinch.Magic, 2*maxSealedFields)
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
			q.hidden(err)
		}
		return
	}
	pairs := asStrings(list)
	if len(pairs) > 2*maxSealedFields {
		q.found.fail(errHashTooLarge)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.found.add(q.stash, key, []byte(pairs[i]), []byte(pairs[i+1]))
	}
}

// hidden notes that a key can't be looked at.
func (q *probe) hidden(err error) {
	text := err.Error()
	var answer goredis.Error
	if !errors.As(err, &answer) {
		q.stash.vault.Stats.Error("second_connection")
		q.stash.vault.log.Warn("second connection failed", "err", err)
		text = "ERR cinch: can't look whether a key holds a sealed value: " + text
	}
	q.found.hidden(text, true)
}
