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

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
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

// dialer makes connections to the server.
type dialer struct {
	upstream endpoint.Upstream                       // its credentials are the gateway's own
	dialFunc func(context.Context) (net.Conn, error) // connects if that is not always one address; nil: gateway.Dial
	stats    *gateway.Stats
}

// dial connects to the server for a client that has not logged in.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.dialOwn(ctx)
	if err != nil || !showsCertificate(d.upstream.TLS) {
		return conn, err
	}
	if err := logOut(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// dialOwn connects to the server, which may accept the gateway's certificate as a login.
func (d *dialer) dialOwn(ctx context.Context) (net.Conn, error) {
	if d.dialFunc != nil {
		return d.dialFunc(ctx)
	}
	return gateway.Dial(ctx, d.upstream, d.stats)
}

// clientAs returns a client of the server, logged in with login, with one connection that it opens on first
// use. With readOnly it reads from replicas of a cluster.
func (d *dialer) clientAs(login *credentials, database string, readOnly bool) *goredis.Client {
	return goredis.NewClient(clientOptions(d.dial, login, database, readOnly))
}

// ownClient is like clientAs for the gateway's own user.
func (d *dialer) ownClient(database string, readOnly bool) *goredis.Client {
	return goredis.NewClient(clientOptions(d.dialOwn, &credentials{d.upstream.User, d.upstream.Password}, database, readOnly))
}

// longLivedClient is like ownClient for a client that is used as long as the gateway serves. It connects again
// after a while: the address may lead to another server by then, although the former one still answers.
func (d *dialer) longLivedClient() *goredis.Client {
	o := clientOptions(d.dialOwn, &credentials{d.upstream.User, d.upstream.Password}, defaultDatabase, false)
	o.ConnMaxLifetime = longLivedConnTime
	return goredis.NewClient(o)
}

// longLivedConnTime limits the age of a connection of a longLivedClient.
const longLivedConnTime = time.Minute

func clientOptions(dial func(context.Context) (net.Conn, error), login *credentials, database string, readOnly bool) *goredis.Options {
	db, _ := strconv.Atoi(database)
	return &goredis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		OnConnect: func(ctx context.Context, c *goredis.Conn) error {
			if readOnly {
				_ = c.ReadOnly(ctx).Err() // it may not be a cluster
			}
			return nil
		},
		Username: login.user, Password: login.password, DB: db,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		ReadTimeout: askTimeout, WriteTimeout: askTimeout,
		// With maintenance notifications go-redis resolves "localhost" for each client.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// RequiresLogin reports whether a server requires a login.
func RequiresLogin(ctx context.Context, up endpoint.Upstream) (closed bool, err error) {
	return (&dialer{upstream: up}).requiresLogin(ctx)
}

// requiresLogin sends PING on a connection without a login. A server that requires one refuses that.
func (d *dialer) requiresLogin(ctx context.Context) (closed bool, err error) {
	err = endpoint.WithConn(ctx, d.dial, func(c net.Conn) error {
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

// errCertificateLogin reports a server whose connections always have the gateway's login.
var errCertificateLogin = errors.New("the server accepts the gateway's certificate as a login, which clients must not get, and refuses RESET: enable RESET on the server")

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
		if err := checkLoggedOut(conn, in, reset); err != nil {
			return err
		}
	}
	if in.Buffered() > 0 {
		return fmt.Errorf("unexpected bytes after the answer to RESET: %q", reset)
	}
	return conn.SetDeadline(time.Time{})
}

// checkLoggedOut checks that a connection on which RESET was refused has no login.
func checkLoggedOut(conn net.Conn, in *bufio.Reader, reset string) error {
	whoami, err := askLine(conn, in, "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n")
	if err != nil || isLoggedOut(whoami) {
		return err
	}
	if isDefault(whoami) { // by a certificate of that name, or because it needs no password
		login, err := askLine(conn, in, anyPassword)
		if err != nil || login == "+OK" {
			return err
		}
	}
	return fmt.Errorf("%w: %.100q; ACL WHOAMI: %.100q", errCertificateLogin, reset, whoami)
}

// anyPassword logs in as the default user if that needs no password. No user has this one.
const anyPassword = "*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$27\r\ncinch: no password is known\r\n"

// isLoggedOut reports whether whoami, the answer to ACL WHOAMI, means no login. Servers without the command
// have no users.
func isLoggedOut(whoami string) bool {
	return strings.HasPrefix(whoami, "-NOAUTH") || strings.HasPrefix(whoami, "-") && isUnknownCommand(whoami)
}

// isDefault reports whether whoami means the default user. A refusal names the user too, and names have no spaces, so
// the refusal of another user begins differently.
func isDefault(whoami string) bool {
	return whoami == "default" || strings.HasPrefix(whoami, "-NOPERM User default has no permissions")
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
