package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// second is a session's second connection to the server, for questions that can't be asked on the first: what
// a key holds while a transaction is being queued, and which arguments of a command are keys. It uses the
// client's login.
type second struct {
	dialer  *dialer
	talk    *conversation
	has     *serverCommands
	scripts *bodies

	space string // the connection's database
	reads bool   // READONLY is on

	mu     sync.Mutex      // guards the fields below: a session may be closed while its request pump asks
	conn   *goredis.Client // nil: none
	closed bool
}

func (x *second) init(dialer *dialer, talk *conversation, has *serverCommands, scripts *bodies) {
	x.dialer, x.talk, x.has, x.scripts = dialer, talk, has, scripts
}

// context returns a context that ends with the session.
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
		who = &credentials{} // the server's default user, like the client
	}
	x.conn, x.space = x.dialer.as(who, space, x.reads), space
	if x.closed {
		_ = x.conn.Close() // every question fails
	}
	return x.conn
}

// forget closes the connection. The next question opens a new one.
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

// drop closes the connection. x.mu must be held.
func (x *second) drop() {
	if x.conn != nil {
		_ = x.conn.Close()
	}
	x.conn = nil
}

// ask asks on the second connection, after ASKING if the client has sent that.
func (x *second) ask(ctx context.Context, c *goredis.Client, args ...any) (any, error) {
	if !x.talk.asks.on && !x.talk.tx.asking {
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
func (x *second) keysOf(args [][]byte) ([][]byte, error) {
	call := make([]any, 0, len(args)+2)
	call = append(call, "COMMAND", "GETKEYS")
	for _, a := range args {
		call = append(call, a)
	}
	ctx, cancel := context.WithTimeout(x.context(), askTimeout)
	defer cancel()
	if !x.talk.settle() { // a login may be outstanding
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

// body returns the text of a script, if it is known here or the server returns it.
func (x *second) body(sha []byte) ([]byte, bool) {
	if text, ok := x.scripts.find(sha); ok {
		return text, true
	}
	return x.askBody(sha)
}

// askBody asks the server for the text of a script, which Valkey 8 supports.
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

// knows reports whether the server has the command of a row, which it asks once a minute. If the server can't
// be asked it reports true: the row's handling is right if the command exists.
func (x *second) knows(c *command) bool {
	if known, ok := x.has.find(c.name); ok {
		return known
	}
	if !x.talk.settle() { // a login may be outstanding
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

// forbidden returns the error by which the server refuses the current request to a user without the rights
// for it, "" if it does not. It asks on the second connection, in a transaction that is discarded: the server
// checks a request when it queues it, and never runs it.
func (x *second) forbidden(args [][]byte) string {
	if err := x.queued(args); lacksRight(err) {
		return err.Error()
	}
	return ""
}

// refusedAtOnce reports whether the server would refuse the request before carrying any of it out: the client
// has to log in first or lacks a right, or there is no such command.
func (x *second) refusedAtOnce(args [][]byte) bool {
	err := x.queued(args)
	// Modules check arguments themselves, after the check of rights, so the bare name is never run.
	if errors.Is(err, errNoMulti) {
		ctx, cancel := context.WithTimeout(x.context(), askTimeout)
		defer cancel()
		err = x.client().Do(ctx, args[0]).Err()
	}
	return err != nil && (lacksRight(err) || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "ERR unknown command"))
}

// queued returns the server's error for queueing the request in a transaction that is discarded. If that
// could not be found out, it is nil or an error other than a server's.
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

// maxCheck limits the bytes of arguments of a request that is sent to be checked.
const maxCheck = 1 << 20

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

// commandsFor limits the age of a cached answer: the server may be replaced by another version.
const commandsFor = time.Minute

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
	c.seen[name] = knownCommand{known, time.Now().Add(commandsFor)}
}

// dialer makes connections to the server.
type dialer struct {
	upstream gateway.Upstream                        // its credentials are the gateway's own
	to       func(context.Context) (net.Conn, error) // connects if that is not always one address; nil: upstream.Dial
}

// dial connects to the server for a client that has not logged in.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.own(ctx)
	if err != nil || !showsCertificate(d.upstream.TLS) {
		return conn, err
	}
	if err := logOut(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// own connects to the server, which may accept the gateway's certificate as a login.
func (d *dialer) own(ctx context.Context) (net.Conn, error) {
	if d.to != nil {
		return d.to(ctx)
	}
	return d.upstream.Dial(ctx)
}

// as returns a client of the server, logged in as who, with one connection that it opens on first use. With
// readOnly it reads from replicas of a cluster.
func (d *dialer) as(who *credentials, space string, readOnly bool) *goredis.Client {
	return goredis.NewClient(clientOptions(d.dial, who, space, readOnly))
}

// self is like as for the gateway's own user.
func (d *dialer) self(space string, readOnly bool) *goredis.Client {
	return goredis.NewClient(clientOptions(d.own, &credentials{d.upstream.User, d.upstream.Password}, space, readOnly))
}

// lasting is like self for a client that is used as long as the gateway serves. It connects again after a while:
// the address may lead to another server by then, although the former one still answers.
func (d *dialer) lasting() *goredis.Client {
	o := clientOptions(d.own, &credentials{d.upstream.User, d.upstream.Password}, firstSpace, false)
	o.ConnMaxLifetime = lastingConnTime
	return goredis.NewClient(o)
}

// lastingConnTime limits the age of a connection of a lasting client.
const lastingConnTime = time.Minute

func clientOptions(dial func(context.Context) (net.Conn, error), who *credentials, space string, readOnly bool) *goredis.Options {
	db, _ := strconv.Atoi(space)
	return &goredis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		OnConnect: func(ctx context.Context, c *goredis.Conn) error {
			if readOnly {
				_ = c.ReadOnly(ctx).Err() // it may not be a cluster
			}
			return nil
		},
		Username: who.user, Password: who.password, DB: db,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		ReadTimeout: askTimeout, WriteTimeout: askTimeout,
		// With maintenance notifications go-redis resolves "localhost" for each client.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// AskClosed reports whether a server requires a login.
func AskClosed(ctx context.Context, up gateway.Upstream) (closed bool, err error) {
	return (&dialer{upstream: up}).askClosed(ctx)
}

// askClosed sends PING on a connection without a login. A server that requires one refuses that.
func (d *dialer) askClosed(ctx context.Context) (closed bool, err error) {
	err = gateway.Ask(ctx, d.dial, func(c net.Conn) error {
		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			return err
		}
		line, err := bufio.NewReaderSize(c, 128).ReadString('\n')
		closed = strings.HasPrefix(line, "-NOAUTH")
		return err
	})
	return closed, err
}

// Since Redis 8.6 and Valkey 9.1 a server may accept a client's certificate as its login
// (tls-auth-clients-user). Every connection that shows the gateway's certificate then starts as the gateway's
// own user. That is right for the gateway's own connections only; those that serve clients log out first:
// after RESET a connection is like one that has shown no certificate. No ACL can deny RESET to a user, but a
// server's configuration may have renamed it.

// maxLoginAnswer limits the answers about a login, in bytes.
const maxLoginAnswer = 512

// errLent reports a server whose connections always have the gateway's login.
var errLent = errors.New("the server accepts the gateway's certificate as a login, which clients must not get, and refuses RESET: enable RESET on the server")

// logOut removes the login of a new connection. If the server has no RESET, it checks that the connection has
// no login.
func logOut(ctx context.Context, conn net.Conn) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(askTimeout)
	}
	_ = conn.SetDeadline(deadline)
	in := bufio.NewReaderSize(conn, maxLoginAnswer)
	reset, err := askLine(conn, in, "*1\r\n$5\r\nRESET\r\n")
	if err != nil {
		return err
	}
	if reset != "+RESET" {
		if err := mustBeNobody(conn, in, reset); err != nil {
			return err
		}
	}
	if in.Buffered() > 0 {
		return fmt.Errorf("unexpected bytes after the answer to RESET: %q", reset)
	}
	return conn.SetDeadline(time.Time{})
}

// mustBeNobody checks that a connection on which RESET was refused has no login.
func mustBeNobody(conn net.Conn, in *bufio.Reader, reset string) error {
	who, err := askLine(conn, in, "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n")
	if err != nil || isNobody(who) {
		return err
	}
	if isDefault(who) { // by a certificate of that name, or because it needs no password
		login, err := askLine(conn, in, anyPassword)
		if err != nil || login == "+OK" {
			return err
		}
	}
	return fmt.Errorf("%w: %.100q; ACL WHOAMI: %.100q", errLent, reset, who)
}

// anyPassword logs in as the default user if that needs no password. No user has this one.
const anyPassword = "*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$27\r\ncinch: no password is known\r\n"

// isNobody reports whether who, the answer to ACL WHOAMI, means no login. Servers without the command have no
// users.
func isNobody(who string) bool {
	return strings.HasPrefix(who, "-NOAUTH") || strings.HasPrefix(who, "-") && isUnknownCommand(who)
}

// isDefault reports whether who means the default user: a refusal names the user. No other name has a space.
func isDefault(who string) bool {
	return who == "default" || strings.HasPrefix(who, "-NOPERM User default has no permissions")
}

// askLine sends a request and returns the line or the string that answers it.
func askLine(conn net.Conn, in *bufio.Reader, request string) (line string, err error) {
	if _, err = conn.Write([]byte(request)); err != nil {
		return "", err
	}
	for range 2 {
		b, err := in.ReadSlice('\n')
		if err != nil {
			return "", fmt.Errorf("no answer when removing the certificate's login: %w", err)
		}
		if line = strings.TrimRight(string(b), "\r\n"); !strings.HasPrefix(line, "$") {
			break
		}
	}
	return line, nil
}

// showsCertificate reports whether connections with this configuration show a certificate to the server.
func showsCertificate(config *tls.Config) bool {
	return config != nil && (len(config.Certificates) > 0 || config.GetClientCertificate != nil)
}
