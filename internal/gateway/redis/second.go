package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// second is a session's second connection to the server, for questions that can't be asked on the first:
// what a key holds while a transaction is being queued, and which arguments of a command are keys. It is
// logged in as the client is.
type second struct {
	dialer  *dialer
	talk    *conversation
	st      *standing
	tx      *transaction
	vault   *vault
	stash   *stash
	ctx     context.Context
	has     *serverCommands
	scripts *bodies

	space string // the connection's database
	reads bool   // READONLY is on

	mu     sync.Mutex      // guards what follows: a session may be closed while its request pump asks
	conn   *goredis.Client // nil: none
	closed bool
}

// client returns the second connection, in the client's database.
func (x *second) client() *goredis.Client {
	space := x.st.where()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn != nil && x.space == space {
		return x.conn
	}
	x.drop()
	who := x.st.who.Load()
	if who == nil {
		who = &credentials{} // the server's default user, as the client
	}
	x.conn, x.space = x.dialer.as(who, space, x.reads), space
	if x.closed {
		_ = x.conn.Close() // every question fails
	}
	return x.conn
}

// forget closes the connection: the next question is asked on another one.
func (x *second) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop()
}

// close closes the connection for good.
func (x *second) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.drop()
}

// drop closes the connection. x.mu is held.
func (x *second) drop() {
	if x.conn != nil {
		_ = x.conn.Close()
	}
	x.conn = nil
}

// prober looks at keys on the second connection. What the client may not ask the gateway asks for
// itself, on a third: that a client may run a command on a key does not say that it may read it.
type prober struct {
	s           *second
	ctx         context.Context
	client, own *goredis.Client
	found       sealedParts
}

// probe finds the sealed values of keys without touching the client's connection,
// when all that the client has sent before has been carried out.
func (x *second) probe(keys [][]byte) sealedParts {
	if !x.talk.settle() {
		return sealedParts{err: errGone}
	}
	p, end := x.newProber()
	defer end()
	for _, key := range keys {
		p.look(key)
	}
	return p.found
}

func (x *second) newProber() (p *prober, end func()) {
	p = &prober{s: x, client: x.client()}
	var cancel context.CancelFunc
	p.ctx, cancel = context.WithTimeout(x.ctx, askTimeout)
	return p, func() {
		cancel()
		if p.own != nil {
			_ = p.own.Close()
		}
	}
}

func (p *prober) ask(args ...any) (any, error) {
	v, err := p.s.ask(p.ctx, p.client, args...)
	if err == nil || !isNoRight(err.Error()) {
		return v, err
	}
	if p.own == nil {
		p.own = p.s.dialer.self(p.s.st.where(), p.s.reads)
	}
	return p.s.ask(p.ctx, p.own, args...)
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
	case p.s.vault.rules().MayHoldHash(p.s.st.where(), key):
		p.fields(key)
	}
}

// fetch adds a sealed string, of which head is the beginning, when there is budget for it.
func (p *prober) fetch(key, head []byte) {
	h, err := cinch.ParseHeader(head)
	if limit := p.s.vault.maxOpen(); err == nil && h.RawLen > limit {
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
	if err := p.s.stash.hold(int(n) + h.RawLen); err != nil {
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
		value, err := p.s.vault.sealer.Open(nil, sealed)
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
		p.found.add(p.s.stash, key, []byte(pairs[i]), []byte(pairs[i+1]))
	}
}

// hidden notes that a key can't be looked at.
func (p *prober) hidden(err error) {
	text := err.Error()
	var answer goredis.Error
	if !errors.As(err, &answer) {
		p.s.vault.stats.Error("second_connection")
		p.s.vault.log.Warn("second connection failed", "err", err)
		text = "ERR cinch: can't look whether a key holds a sealed value: " + text
	}
	p.found.hidden(text, true)
}

// ask asks on the second connection, behind ASKING where the client has sent that.
func (x *second) ask(ctx context.Context, c *goredis.Client, args ...any) (any, error) {
	if !x.talk.asks.on && !x.tx.asking {
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
func (x *second) keysOf(args [][]byte) ([][]byte, error) {
	call := make([]any, 0, len(args)+2)
	call = append(call, "COMMAND", "GETKEYS")
	for _, a := range args {
		call = append(call, a)
	}
	ctx, cancel := context.WithTimeout(x.ctx, askTimeout)
	defer cancel()
	if !x.talk.settle() { // it may be logging in
		return nil, errGone
	}
	names, err := x.client().Do(ctx, call...).StringSlice()
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

// askBody asks the server for a script, which Valkey 8 shows.
func (x *second) askBody(sha []byte) ([]byte, bool) {
	if x.has.noScriptShow.Load() || !x.talk.settle() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(x.ctx, askTimeout)
	defer cancel()
	text, err := x.client().Do(ctx, "SCRIPT", "SHOW", sha).Text()
	switch {
	case err == nil && lua.Name([]byte(text)) == strings.ToLower(string(sha)):
		x.scripts.learn([]byte(text))
		return []byte(text), true
	case err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown subcommand"):
		x.has.noScriptShow.Store(true)
	}
	return nil, false
}

// knows asks the server, once in a while, whether it has the command of a row. Where that can't
// be asked it has: the row is right about it if so.
func (x *second) knows(c *command) bool {
	if known, ok := x.has.find(c.name); ok {
		return known
	}
	if !x.talk.settle() { // it may be logging in
		return true
	}
	ctx, cancel := context.WithTimeout(x.ctx, askTimeout)
	defer cancel()
	list, err := x.client().Do(ctx, "COMMAND", "INFO", c.name).Slice()
	if err != nil || len(list) != 1 {
		return true
	}
	x.has.set(c.name, list[0] != nil)
	return list[0] != nil
}

func (x *second) setReadOnly(on bool) {
	if x.reads != on {
		x.forget()
	}
	x.reads = on
}

// forbidden is how the server refuses the request at hand to a user who may not run it on its keys, "" where
// it does not. It is asked on the second connection, in a transaction that is discarded: there a
// request is checked when it is queued, and never run.
func (x *second) forbidden(args [][]byte) string {
	if err := x.queued(args); err != nil && isNoRight(err.Error()) {
		return err.Error()
	}
	return ""
}

// refusedAtOnce reports that the server would not begin to carry out the request at hand: the client has
// to log in first, may not run it, or there is no such command.
func (x *second) refusedAtOnce(args [][]byte) bool {
	err := x.queued(args)
	if errors.Is(err, errNoMulti) { // a module checks arguments itself, behind the check of rights: the bare name is never run
		ctx, cancel := context.WithTimeout(x.ctx, askTimeout)
		defer cancel()
		err = x.client().Do(ctx, args[0]).Err()
	}
	return err != nil && (isNoRight(err.Error()) || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "ERR unknown command"))
}

// queued is how the server answers to the request at hand in a transaction that is discarded. Where
// that could not be found out it is nil, or another error than the server has for a request.
func (x *second) queued(args [][]byte) error {
	size, words := 0, make([]any, len(args))
	for i, a := range args {
		size, words[i] = size+len(a), a
	}
	if size > maxCheck || len(args) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, askTimeout)
	defer cancel()
	conn := x.client().Conn()
	defer conn.Close()
	if err := conn.Do(ctx, "MULTI").Err(); err != nil { // without MULTI it would be run
		if isNoRight(err.Error()) { // of MULTI, and not of the request
			return errNoMulti
		}
		return err
	}
	err := conn.Do(ctx, words...).Err()
	_ = conn.Do(ctx, "DISCARD").Err()
	return err
}

// typesOf asks what kinds of keys they are; "none" are not there.
func (x *second) typesOf(keys [][]byte) (types []string, err error) {
	if !x.talk.settle() {
		return nil, errGone
	}
	p, end := x.newProber()
	defer end()
	for _, k := range keys {
		reply, err := p.ask("TYPE", k)
		if err != nil {
			return nil, err
		}
		name, _ := reply.(string)
		types = append(types, name)
	}
	return types, nil
}

// errNoMulti reports that the client has no right to MULTI.
var errNoMulti = errors.New("redis: the user may not begin a transaction")

// maxCheck is up to how many bytes of arguments a request is sent to be checked.
const maxCheck = 1 << 20
