package tarantool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/tarantool/go-iproto"
	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/internal/store"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Errors that callers decide on.
var (
	// ErrUnreachable: there is no connection, or it ended.
	ErrUnreachable = errors.New("tarantool can't be reached")
	// ErrLogin: the server refuses the user or the password.
	ErrLogin = errors.New("the server refuses the user or the password")
	// ErrDenied: the user lacks a right.
	ErrDenied = errors.New("the user lacks a right")
	// ErrNoInit: what 'cinch tarantool init' installs is missing.
	ErrNoInit = errors.New("cinch's functions are not installed in the server")
	// ErrSchemaMoves: the schema changed during every attempt to read it.
	ErrSchemaMoves = errors.New("the schema keeps changing")
)

const (
	defaultTimeout = 30 * time.Second
	bufferBytes    = 64 << 10
)

// Options configure a connection.
type Options struct {
	// Dial opens the connection, with TLS if there is any.
	Dial           func(ctx context.Context) (net.Conn, error)
	User, Password string        // User "": guest
	Timeout        time.Duration // of each answer; 0: 30 s
	// Gateway is called if a Cinch gateway answers at an address; its error fails the connection. Nil: not
	// checked.
	Gateway func(address string, g store.Gateway) error
	// Moved is called when the connection leads to another server than before, or is about to. It must not
	// block. Nil: not called.
	Moved func()
}

// Conn is one of Cinch's own connections, never a client's. After it has ended the next request reconnects.
// It is safe for concurrent use.
type Conn struct {
	o      Options
	mu     sync.Mutex
	live   *serverConn // nil: not connected yet, or the last attempt failed
	closed bool

	instance string    // ID of the server that it leads to, or is about to; "": unknown
	followed time.Time // when Follow last ended the connection
}

// serverConn is a connection to one process.
type serverConn struct {
	c *tnt.Connection
	// versions tracks the schema versions in its answers.
	versions versionTracker
	server   schema.Version
	instance string // the server's ID, see instanceOf
}

// NewConn returns a Conn that connects on first use.
func NewConn(o Options) *Conn {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return &Conn{o: o}
}

// Connect connects and logs in.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	c := NewConn(o)
	_, err := c.get(ctx)
	return c, err
}

// Close ends the connection.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.live != nil {
		_ = c.live.c.Close()
	}
}

// Drop ends the connection; the next request makes another.
func (c *Conn) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		_ = c.live.c.Close()
	}
}

// followPause is the shortest time between two moves by Follow. It matters if connections to one address reach
// different servers in turn.
const followPause = 5 * time.Second

// Follow is called with the greeting that a client got from the server at the same address. If that is another
// server, as after a planned change of the master, Follow ends the connection, and the next request makes another.
// It does not block.
func (c *Conn) Follow(greeting string) {
	if !c.mu.TryLock() {
		return // another goroutine is connecting just now
	}
	defer c.mu.Unlock()
	to := instanceOf(greeting)
	if c.live == nil || to == "" || to == c.instance || time.Since(c.followed) < followPause {
		return
	}
	c.followed = time.Now()
	_ = c.live.c.Close()
	c.setInstance(to)
}

// instanceOf returns the server's ID, the last word in the first line of its greeting, or "". A server always keeps
// its ID, even if its address changes.
func instanceOf(greeting string) string {
	line, _, _ := strings.Cut(greeting, "\n")
	_, id, _ := strings.Cut(line, ") ")
	return strings.TrimSpace(id)
}

// setInstance records the server that the connection leads to. mu must be held.
func (c *Conn) setInstance(instance string) {
	before := c.instance
	c.instance = instance
	if before != "" && before != instance && c.o.Moved != nil {
		c.o.Moved()
	}
}

// get returns the connection. It reconnects if necessary; other callers wait meanwhile.
func (c *Conn) get(ctx context.Context) (*serverConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%w: it was closed", ErrUnreachable)
	}
	if c.live != nil && !c.live.c.ClosedNow() {
		return c.live, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	l := &serverConn{}
	var err error
	l.c, err = tnt.Connect(ctx, dialer{c.o, l}, tnt.Opts{Timeout: c.o.Timeout, SkipSchema: true, Logger: discardLogger{}})
	if err != nil {
		c.live = nil
		return nil, classifyDial(err)
	}
	if err := c.checkGateway(ctx, l); err != nil {
		_ = l.c.Close()
		c.live = nil
		return nil, err
	}
	c.live = l
	c.setInstance(l.instance)
	return l, nil
}

// checkGateway finds out whether a gateway answers. To a server its request is an ordinary PING, which has no
// effect.
func (c *Conn) checkGateway(ctx context.Context, l *serverConn) error {
	if c.o.Gateway == nil {
		return nil
	}
	var data []any
	err := l.do(ctx, c.o.Timeout, func(ctx context.Context) tnt.Request { return gatewayQuestion{tnt.NewPingRequest().Context(ctx)} }, &data)
	var answer tnt.Error
	if err != nil && !errors.As(err, &answer) {
		return err
	}
	name, upstream, is := wire.ParseGateway(data)
	if !is {
		return nil
	}
	return c.o.Gateway(l.c.Addr().String(), store.Gateway{Name: name, Upstream: upstream})
}

// gatewayQuestion is a PING with a body.
type gatewayQuestion struct{ *tnt.PingRequest }

func (gatewayQuestion) Body(_ tnt.SchemaResolver, e *msgpack.Encoder) error {
	_, err := e.Writer().Write(wire.GatewayQuestion)
	return err
}

// do sends a request and decodes the answer into result.
func (c *Conn) do(ctx context.Context, request func(context.Context) tnt.Request, result any) error {
	l, err := c.get(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, c.o.Timeout, request, result)
}

func (l *serverConn) do(ctx context.Context, timeout time.Duration, request func(context.Context) tnt.Request, result any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	future := l.c.Do(request(ctx))
	if result == nil {
		_, err := future.Get()
		return classify(err)
	}
	return classify(future.GetTyped(result))
}

// OnGateway returns Options.Gateway, for connections to other servers.
func (c *Conn) OnGateway() func(address string, g store.Gateway) error { return c.o.Gateway }

// Ping sends PING and waits for the answer.
func (c *Conn) Ping(ctx context.Context) error {
	return c.do(ctx, func(ctx context.Context) tnt.Request { return tnt.NewPingRequest().Context(ctx) }, nil)
}

// discardLogger is a logger that discards: errors are returned anyway.
type discardLogger struct{}

func (discardLogger) Report(tnt.ConnLogKind, *tnt.Connection, ...any) {}

// dialer opens connections. A versionReader reads the schema version in their answers.
type dialer struct {
	o    Options
	live *serverConn
}

func (d dialer) Dial(ctx context.Context, opts tnt.DialOpts) (tnt.Conn, error) {
	c, err := tnt.AuthDialer{
		Dialer:   tnt.ProtocolDialer{Dialer: tnt.GreetingDialer{Dialer: baseDialer{d.o}}},
		Auth:     tnt.ChapSha1Auth,
		Username: d.o.User, Password: d.o.Password,
	}.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	d.live.server, d.live.instance = schema.ParseVersion(c.Greeting().Version), instanceOf(c.Greeting().Version)
	return &versionReader{Conn: c, to: &d.live.versions}, nil
}

// baseDialer opens the connection below greeting and login.
type baseDialer struct{ o Options }

func (b baseDialer) Dial(ctx context.Context, opts tnt.DialOpts) (tnt.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	c, err := b.o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	d := deadlineConn{c, opts.IoTimeout}
	return &plainConn{c: c, r: bufio.NewReaderSize(d, bufferBytes), w: bufio.NewWriterSize(d, bufferBytes)}, nil
}

// deadlineConn limits the time of each read and write.
type deadlineConn struct {
	net.Conn
	timeout time.Duration
}

func (d deadlineConn) Read(p []byte) (int, error) {
	if err := d.SetReadDeadline(time.Now().Add(d.timeout)); err != nil {
		return 0, err
	}
	return d.Conn.Read(p)
}

func (d deadlineConn) Write(p []byte) (int, error) {
	if err := d.SetWriteDeadline(time.Now().Add(d.timeout)); err != nil {
		return 0, err
	}
	return d.Conn.Write(p)
}

// plainConn implements tnt.Conn without greeting and login.
type plainConn struct {
	c net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

func (p *plainConn) Read(b []byte) (int, error)     { return p.r.Read(b) }
func (p *plainConn) Write(b []byte) (int, error)    { return p.w.Write(b) }
func (p *plainConn) Flush() error                   { return p.w.Flush() }
func (p *plainConn) Close() error                   { return p.c.Close() }
func (p *plainConn) Addr() net.Addr                 { return p.c.RemoteAddr() }
func (p *plainConn) Greeting() tnt.Greeting         { return tnt.Greeting{} }
func (p *plainConn) ProtocolInfo() tnt.ProtocolInfo { return tnt.ProtocolInfo{} }

// classifyDial classifies an error of connecting: one that is not the server's answer means that it can't be
// reached.
func classifyDial(err error) error {
	var answer tnt.Error
	if errors.As(err, &answer) {
		return classifyAnswer(err, answer.Code)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// classify wraps an error in the sentinel that callers decide on.
func classify(err error) error {
	var answer tnt.Error
	var client tnt.ClientError
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		return classifyAnswer(err, answer.Code)
	case errors.As(err, &client) && client.Code != tnt.ErrProtocolError, errors.As(err, &network):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

func classifyAnswer(err error, code iproto.Error) error {
	switch code {
	case iproto.ER_NO_SUCH_USER, iproto.ER_CREDS_MISMATCH:
		return fmt.Errorf("%w: %w", ErrLogin, err)
	case iproto.ER_ACCESS_DENIED:
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}

// isCode reports whether err is an answer of the server with the given code.
func isCode(err error, code iproto.Error) bool {
	var answer tnt.Error
	return errors.As(err, &answer) && answer.Code == code
}

// Unavailable reports whether the server did not answer, so that a retry makes sense.
func Unavailable(err error) bool { return errors.Is(err, ErrUnreachable) }

// eval runs Lua, which only administrators may do.
func (c *Conn) eval(ctx context.Context, lua string, args []any, result any) error {
	if args == nil {
		args = []any{}
	}
	return c.do(ctx, func(ctx context.Context) tnt.Request { return tnt.NewEvalRequest(lua).Args(args).Context(ctx) }, result)
}
