package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// sideConn is a session's second connection to the server, for questions that can't be asked on the first: what
// a key holds while a transaction is being queued, and which arguments of a command are keys. It uses the
// client's login.
type sideConn struct {
	dialer   *dialer
	upstream *upstreamWriter
	commands *serverCommands
	scripts  *scriptCache

	database string // the connection's database
	readOnly bool   // READONLY is on

	mu     sync.Mutex      // guards the fields below: a session may be closed while its request pump asks
	conn   *goredis.Client // nil: none
	closed bool
}

func (x *sideConn) init(dialer *dialer, upstream *upstreamWriter, commands *serverCommands, scripts *scriptCache) {
	x.dialer, x.upstream, x.commands, x.scripts = dialer, upstream, commands, scripts
}

// context returns a context that ends with the session.
func (x *sideConn) context() context.Context { return x.upstream.life.Context() }

// client returns the second connection, in the client's database.
func (x *sideConn) client() *goredis.Client {
	database := x.upstream.state.database()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn != nil && x.database == database {
		return x.conn
	}
	x.drop()
	login := x.upstream.state.credentials.Load()
	if login == nil {
		login = &credentials{} // the server's default user, like the client
	}
	x.conn, x.database = x.dialer.clientAs(login, database, x.readOnly), database
	if x.closed {
		_ = x.conn.Close() // every question fails
	}
	return x.conn
}

// invalidate closes the connection. The next question opens a new one.
func (x *sideConn) invalidate() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop()
}

// close closes the connection for good.
func (x *sideConn) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.drop()
}

// drop closes the connection. x.mu must be held.
func (x *sideConn) drop() {
	if x.conn != nil {
		_ = x.conn.Close()
	}
	x.conn = nil
}

// ask asks on the second connection, after ASKING if the client has sent that.
func (x *sideConn) ask(ctx context.Context, c *goredis.Client, args ...any) (any, error) {
	if !x.upstream.asking.on && !x.upstream.tx.asking {
		return c.Do(ctx, args...).Result()
	}
	p := c.Pipeline()
	p.Do(ctx, "ASKING")
	answer := p.Do(ctx, args...)
	_, _ = p.Exec(ctx) // the answer holds the error
	return answer.Result()
}

// asStrings returns the elements of a list; those that are not strings become "".
func asStrings(list any) []string {
	items, _ := list.([]any)
	all := make([]string, len(items))
	for i := range items {
		all[i], _ = items[i].(string)
	}
	return all
}

// keysOf asks the server which arguments of a request are keys. It returns none if there are none, or if the
// server would refuse the request anyway.
func (x *sideConn) keysOf(args [][]byte) ([][]byte, error) {
	call := make([]any, 0, len(args)+2)
	call = append(call, "COMMAND", "GETKEYS")
	for _, a := range args {
		call = append(call, a)
	}
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
	defer cancel()
	if !x.upstream.awaitReplies() { // a login may be outstanding
		return nil, errSessionEnded
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

// body returns the text of a script, if it is known here or the server returns it.
func (x *sideConn) body(sha []byte) ([]byte, bool) {
	if text, ok := x.scripts.find(sha); ok {
		return text, true
	}
	return x.askBody(sha)
}

// askBody asks the server for the text of a script, which Valkey 8 supports.
func (x *sideConn) askBody(sha []byte) ([]byte, bool) {
	if x.commands.noScriptShow.Load() || !x.upstream.awaitReplies() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
	defer cancel()
	text, err := x.client().Do(ctx, "SCRIPT", "SHOW", sha).Text()
	switch {
	case err == nil && lua.Name([]byte(text)) == strings.ToLower(string(sha)):
		x.scripts.add([]byte(text))
		return []byte(text), true
	case err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown subcommand"):
		x.commands.noScriptShow.Store(true)
	}
	return nil, false
}

// supports reports whether the server has the command of a row, which it asks once a minute. If the server can't
// be asked it reports true: the row's handling is right if the command exists.
func (x *sideConn) supports(c *command) bool {
	if known, ok := x.commands.find(c.name); ok {
		return known
	}
	if !x.upstream.awaitReplies() { // a login may be outstanding
		return true
	}
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
	defer cancel()
	list, err := x.client().Do(ctx, "COMMAND", "INFO", c.name).Slice()
	if err != nil || len(list) != 1 {
		return true
	}
	x.commands.set(c.name, list[0] != nil)
	return list[0] != nil
}

func (x *sideConn) setReadOnly(on bool) {
	if x.readOnly != on {
		x.invalidate()
	}
	x.readOnly = on
}

// permissionError returns the error by which the server refuses the current request to a user without the rights
// for it, "" if it does not. It asks on the second connection, in a transaction that is discarded: the server
// checks a request when it queues it, and never runs it.
func (x *sideConn) permissionError(args [][]byte) string {
	if err := x.tryQueue(args); lacksRight(err) {
		return err.Error()
	}
	return ""
}

// wouldRefuse reports whether the server would refuse the request before carrying any of it out: the client
// has to log in first or lacks a right, or there is no such command.
func (x *sideConn) wouldRefuse(args [][]byte) bool {
	err := x.tryQueue(args)
	// Modules check arguments themselves, after the check of rights, so the bare name is never run.
	if errors.Is(err, errNoMulti) {
		ctx, cancel := context.WithTimeout(x.context(), askTimeout)
		defer cancel()
		err = x.client().Do(ctx, args[0]).Err()
	}
	return err != nil && (lacksRight(err) || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "ERR unknown command"))
}

// tryQueue returns the server's error for queueing the request in a transaction that is discarded. If the request
// can't be tried, it returns nil, errNoMulti or another error.
func (x *sideConn) tryQueue(args [][]byte) error {
	size, words := 0, make([]any, len(args))
	for i, a := range args {
		size, words[i] = size+len(a), a
	}
	if size > maxCheckedBytes || len(args) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
	defer cancel()
	conn := x.client().Conn()
	defer conn.Close()
	if err := conn.Do(ctx, "MULTI").Err(); err != nil { // without MULTI the request would be run
		if lacksRight(err) { // the right to MULTI is missing, not that to the request
			return errNoMulti
		}
		return err
	}
	err := conn.Do(ctx, words...).Err()
	_ = conn.Do(ctx, "DISCARD").Err()
	return err
}

// errNoMulti reports that the client has no right to MULTI.
var errNoMulti = errors.New("redis: the user has no right to run MULTI")

// maxCheckedBytes limits the bytes of arguments of a request that is sent to be checked.
const maxCheckedBytes = 1 << 20

// Some rows of the table are commands that not every server has. If the server does not, the request is
// handled like an unknown command, so that the server refuses it.

// serverCommands caches which commands the server has.
type serverCommands struct {
	mu   sync.Mutex
	seen map[string]knownCommand

	noScriptShow atomic.Bool // the server has no SCRIPT SHOW
}

type knownCommand struct {
	known bool
	until time.Time
}

// commandCacheTime limits the age of a cached answer: the server may be replaced by another version.
const commandCacheTime = time.Minute

func (c *serverCommands) find(name string) (known, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.seen[name]
	return k.known, ok && time.Now().Before(k.until)
}

func (c *serverCommands) set(name string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]knownCommand{}
	}
	c.seen[name] = knownCommand{known, time.Now().Add(commandCacheTime)}
}
