package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// second is a session's second connection to the server, for questions that can't be asked on the first:
// what a key holds while a transaction is being queued, and which arguments of a command are keys. It is
// logged in as the client is.
type second struct {
	dialer  *dialer
	talk    *conversation
	has     *serverCommands
	scripts *bodies

	space string // the connection's database
	reads bool   // READONLY is on

	mu     sync.Mutex      // guards what follows: a session may be closed while its request pump asks
	conn   *goredis.Client // nil: none
	closed bool
}

func (x *second) init(dialer *dialer, talk *conversation, has *serverCommands, scripts *bodies) {
	x.dialer, x.talk, x.has, x.scripts = dialer, talk, has, scripts
}

// context ends with the session.
func (x *second) context() context.Context { return x.talk.life.Context() }

// client returns the second connection, in the client's database.
func (x *second) client() *goredis.Client {
	space := x.talk.st.where()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn != nil && x.space == space {
		return x.conn
	}
	x.drop()
	who := x.talk.st.who.Load()
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

// ask asks on the second connection, behind ASKING where the client has sent that.
func (x *second) ask(ctx context.Context, c *goredis.Client, args ...any) (any, error) {
	if !x.talk.asks.on && !x.talk.tx.asking {
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
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
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

// body is the text of a script, where it is known or the server tells.
func (x *second) body(sha []byte) ([]byte, bool) {
	if text, ok := x.scripts.find(sha); ok {
		return text, true
	}
	return x.askBody(sha)
}

// askBody asks the server for a script, which Valkey 8 shows.
func (x *second) askBody(sha []byte) ([]byte, bool) {
	if x.has.noScriptShow.Load() || !x.talk.settle() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
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
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
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
		ctx, cancel := context.WithTimeout(x.context(), askTimeout)
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
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
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

// errNoMulti reports that the client has no right to MULTI.
var errNoMulti = errors.New("redis: the user may not begin a transaction")

// maxCheck is up to how many bytes of arguments a request is sent to be checked.
const maxCheck = 1 << 20
