package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// auxConn is a session's second connection to the server, for questions that can't be
// asked on the first: what a key holds while a transaction is being queued, and which
// arguments of a command are keys. It is logged in as the client is.
type auxConn struct {
	space  string
	client *goredis.Client
}

func (a *auxConn) close() {
	if a != nil {
		_ = a.client.Close()
	}
}

// auxTimeout bounds every question on the second connection.
const auxTimeout = 5 * time.Second

// beside returns the second connection, in the client's database.
func (s *session) beside() *goredis.Client {
	space := s.where()
	if s.aux != nil && s.aux.space == space {
		return s.aux.client
	}
	s.aux.close()
	who := s.who.Load()
	if who == nil {
		who = &credentials{} // the server's default user, as the client
	}
	s.aux = &auxConn{space: space, client: s.g.dialAs(who, space, s.reads)}
	return s.aux.client
}

// dialAs returns a client of the server with one connection, which it opens when it is
// first used. With readOnly it reads from a replica in a cluster.
func (g *Gateway) dialAs(who *credentials, space string, readOnly bool) *goredis.Client {
	return newAux(g.dial, who, space, readOnly)
}

// dialSelf is dialAs for the gateway's own user.
func (g *Gateway) dialSelf(space string, readOnly bool) *goredis.Client {
	return newAux(g.dialOwn, &credentials{g.cfg.Upstream.User, g.cfg.Upstream.Password}, space, readOnly)
}

func newAux(dial func(context.Context) (net.Conn, error), who *credentials, space string, readOnly bool) *goredis.Client {
	db, _ := strconv.Atoi(space)
	return goredis.NewClient(&goredis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		OnConnect: func(ctx context.Context, c *goredis.Conn) error {
			if readOnly {
				_ = c.ReadOnly(ctx).Err() // it may be no cluster
			}
			return nil
		},
		Username: who.user, Password: who.password, DB: db,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		ReadTimeout: auxTimeout, WriteTimeout: auxTimeout,
	})
}

// prober looks at keys on the second connection. What the client may not ask the gateway asks for
// itself, on a third: that a client may run a command on a key does not say that it may read it.
type prober struct {
	s           *session
	ctx         context.Context
	client, own *goredis.Client
	found       sealedParts
}

// probeBeside finds the sealed values of keys without touching the client's connection,
// when all that the client has sent before has been carried out.
func (s *session) probeBeside(keys [][]byte) sealedParts {
	if !s.settle() {
		return sealedParts{err: errGone}
	}
	p, end := s.newProber()
	defer end()
	for _, key := range keys {
		p.look(key)
	}
	return p.found
}

func (s *session) newProber() (p *prober, end func()) {
	p = &prober{s: s, client: s.beside()}
	var cancel context.CancelFunc
	p.ctx, cancel = context.WithTimeout(s.ctx, auxTimeout)
	return p, func() {
		cancel()
		if p.own != nil {
			_ = p.own.Close()
		}
	}
}

func (p *prober) ask(args ...any) (any, error) {
	v, err := p.s.askBeside(p.ctx, p.client, args...)
	if err == nil || !isNoRight(err.Error()) {
		return v, err
	}
	if p.own == nil {
		p.own = p.s.g.dialSelf(p.s.where(), p.s.reads)
	}
	return p.s.askBeside(p.ctx, p.own, args...)
}

// look adds what is sealed of a key. A value that is not is never fetched.
func (p *prober) look(key []byte) {
	head, err := p.ask("GETRANGE", key, 0, cinch.MaxHeaderLen-1)
	switch {
	case err == nil:
		if text, _ := head.(string); strings.HasPrefix(text, cinch.Magic) {
			p.fetch(key, []byte(text))
		}
	case !isWrongType(err.Error()):
		p.hidden(err)
	case p.s.rules().MayHoldHash(p.s.where(), key):
		p.fields(key)
	}
}

// fetch adds a sealed string, of which head is the beginning, when there is budget for it.
func (p *prober) fetch(key, head []byte) {
	h, err := cinch.ParseHeader(head)
	if limit := p.s.g.maxOpen(); err == nil && h.RawLen > limit {
		err = fmt.Errorf("%w: %d bytes, at most %d are opened", cinch.ErrTooLarge, h.RawLen, limit)
	}
	if err != nil {
		p.found.fail(err)
		return
	}
	size, err := p.ask("STRLEN", key)
	if err != nil {
		p.hidden(err)
		return
	}
	n, _ := size.(int64)
	if err := p.s.hold(int(n) + h.RawLen); err != nil {
		p.found.fail(err)
		return
	}
	stored, err := p.ask("GET", key)
	text, _ := stored.(string)
	switch {
	case errors.Is(err, goredis.Nil): // deleted meanwhile
	case err != nil:
		p.hidden(err)
	case strings.HasPrefix(text, cinch.Magic):
		sealed := []byte(text)
		value, err := p.s.g.sealer.Open(nil, sealed)
		if err != nil {
			p.found.fail(err)
			return
		}
		p.found.parts = append(p.found.parts, part{key: bytes.Clone(key), Known: lua.Known{Sealed: sealed, Value: value}})
	}
}

// fields adds the sealed fields of a key that is no string.
func (p *prober) fields(key []byte) {
	list, err := p.ask("EVAL", lua.SealedFields, 1, key, cinch.Magic, 2*maxSealedFields)
	if err != nil && !isWrongType(err.Error()) { // no scripts for this user
		length, _ := p.ask("HLEN", key)
		if n, _ := length.(int64); n > maxSealedFields {
			p.found.fail(errHashTooLarge)
			return
		}
		list, err = p.ask("HGETALL", key)
	}
	if err != nil {
		if !isWrongType(err.Error()) {
			p.hidden(err)
		}
		return
	}
	pairs := asStrings(list)
	if len(pairs) > 2*maxSealedFields {
		p.found.fail(errHashTooLarge)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		p.found.add(p.s, key, []byte(pairs[i]), []byte(pairs[i+1]))
	}
}

// hidden notes that a key can't be looked at.
func (p *prober) hidden(err error) {
	text := err.Error()
	var answer goredis.Error
	if !errors.As(err, &answer) {
		p.s.g.cfg.Stats.Error("second_connection")
		p.s.g.cfg.Log.Warn("second connection failed", "err", err)
		text = "ERR cinch: can't look whether a key holds a sealed value: " + text
	}
	p.found.hidden(text, true)
}

// askBeside asks on the second connection, behind ASKING where the client has sent that.
func (s *session) askBeside(ctx context.Context, c *goredis.Client, args ...any) (any, error) {
	if !s.asks.on && !s.tx.asking {
		return c.Do(ctx, args...).Result()
	}
	p := c.Pipeline()
	p.Do(ctx, "ASKING")
	answer := p.Do(ctx, args...)
	_, _ = p.Exec(ctx) // the answer has its error
	return answer.Result()
}

// asStrings is a list of strings; what is none of them is empty.
func asStrings(list any) []string {
	items, _ := list.([]any)
	all := make([]string, len(items))
	for i := range items {
		all[i], _ = items[i].(string)
	}
	return all
}

// keysOf asks the server which arguments of a request are keys; none when it has none,
// or when the server would refuse the request anyway.
func (s *session) keysOf(args [][]byte) ([][]byte, error) {
	call := make([]any, 0, len(args)+2)
	call = append(call, "COMMAND", "GETKEYS")
	for _, a := range args {
		call = append(call, a)
	}
	ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
	defer cancel()
	if !s.settle() { // it may be logging in
		return nil, errGone
	}
	names, err := s.beside().Do(ctx, call...).StringSlice()
	if err != nil {
		var answer goredis.Error
		if errors.As(err, &answer) && !strings.HasPrefix(err.Error(), "NO") { // not NOAUTH, NOPERM
			return nil, nil
		}
		return nil, fmt.Errorf("COMMAND GETKEYS: %w", err)
	}
	keys := make([][]byte, len(names))
	for i, n := range names {
		keys[i] = []byte(n)
	}
	return keys, nil
}
