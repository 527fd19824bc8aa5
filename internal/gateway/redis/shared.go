package redis

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/mux"
	"github.com/cinch-layer/cinch/internal/system/panics"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// sharedDialTimeout limits the time to connect to the server for a client that shares connections.
const sharedDialTimeout = 10 * time.Second

// newSharedPool returns the pool of connections that the gateway's clients share.
func (g *Gateway) newSharedPool() *mux.Pool {
	return mux.NewPool(mux.Config{
		Dial: g.dialShared, Lost: g.lostShared, Slow: g.cutSlow, Most: g.cfg.SharedConns, Timeout: sharedDialTimeout,
		Go: func(f, failed func()) {
			go func() {
				defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, failed)
				f()
			}()
		},
	})
}

// dialShared connects to the server.
func (g *Gateway) dialShared(ctx context.Context) (net.Conn, error) {
	if g.cfg.Dicts != nil {
		g.cfg.Dicts.Dialed()
	}
	return g.dialer.dial(ctx)
}

// cutSlow is called when a client's session ends with mux.ErrSlow.
func (g *Gateway) cutSlow(client net.Addr) {
	g.slow.add(client)
	g.cfg.Stats.Error("stalled")
	g.cfg.Log.Warn("client is too slow, disconnected", "client", client.String(), "why", mux.ErrSlow.Error(), "own_connections_for", slowTime)
}

// lostShared is called when the server has ended a shared connection: it may have restarted without dictionaries.
func (g *Gateway) lostShared() {
	if g.cfg.Dicts != nil {
		g.cfg.Dicts.Lost()
	}
}

// SharesConnections reports whether clients share connections to the server.
func (g *Gateway) SharesConnections() bool { return g.shared != nil }

// Connections counts the connections of a gateway that SharesConnections.
func (g *Gateway) Connections() mux.Use { return g.shared.Use() }

// startSharing starts sweepShared, which stopSharing ends.
func (g *Gateway) startSharing() {
	ctx, cancel := context.WithCancel(context.Background())
	g.stopSharing = func() {
		cancel()
		g.shared.Close()
	}
	go panics.KeepRunning(ctx, g.cfg.Log, g.cfg.Stats, g.sweepShared)
}

// sweepShared closes connections that no client has used for a while, until ctx ends.
func (g *Gateway) sweepShared(ctx context.Context) {
	t := time.NewTicker(5 * time.Second)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			g.shared.Sweep(now)
		case <-ctx.Done():
			return
		}
	}
}

// slowTime is the time for which the clients of an address don't share connections after one has been too slow for
// that.
const slowTime = 10 * time.Minute

// maxSlow limits the number of addresses that slowClients remembers.
const maxSlow = 10_000

// slowClients are the addresses of clients whose replies need backpressure, which a connection of their own has.
type slowClients struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (s *slowClients) add(client net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.until) >= maxSlow {
		maps.DeleteFunc(s.until, func(_ string, until time.Time) bool { return now.After(until) })
	}
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	if len(s.until) < maxSlow {
		s.until[memory.AddressOf(client)] = now.Add(slowTime)
	}
}

func (s *slowClients) has(client net.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.until) > 0 && time.Now().Before(s.until[memory.AddressOf(client)])
}

// sharing is the state of a client that shares connections; see package mux.
type sharing struct {
	conn      *mux.Conn
	pinned    bool       // the client has a connection of its own
	stays     bool       // that connection has state that ends only with it
	written   bool       // that connection may have carried a write
	open      bool       // the client may send commands without a login
	begun     bool       // Begin was called, and Commit not since
	writes    bool       // a request for which Commit has not been called may write
	flags     entryFlags // of the current request's entries
	committed uint64     // requests for which Commit was called

	kept   atomic.Bool // the reply to an entry with flagKeepIfOK or flagKeepIfError said so
	failed atomic.Bool // a reply was an error: the gateway's own requests may have left state, such as MULTI
}

// noteReply is called by the reply pump with the first byte of a reply.
func (h *sharing) noteReply(kind byte, flags entryFlags) {
	isError := kind == resp.Error || kind == resp.BulkError
	if isError && flags&flagKeepIfError != 0 || !isError && flags&flagKeepIfOK != 0 {
		h.kept.Store(true)
	}
	if isError {
		h.failed.Store(true)
	}
}

// readCommands are the commands with the strategies verbatim and values that never write.
const readCommands = `
echo ping time dbsize info lastsave lolwut memory object randomkey role scan keys exists type ttl pttl expiretime pexpiretime dump
touch pubsub acl latency slowlog geodist geohash geopos georadius_ro georadiusbymember_ro geosearch
get mget strlen hexists hget hgetall hkeys hlen hmget hrandfield hscan httl hpttl hexpiretime hpexpiretime hvals
lindex llen lpos lrange scard sdiff sinter sintercard sismember smembers smismember srandmember sscan sunion
zcard zcount zdiff zinter zintercard zlexcount zmscore zrandmember zrange zrangebylex zrangebyscore zrank zrevrange
zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion xlen xpending xrange xrevrange xread xinfo`

// setSharing sets what sharing needs to know of the table's commands.
func (t table) setSharing() {
	for _, c := range t {
		// A command of a module, or about vectors, may block, and the server then answers nothing else on the
		// connection.
		c.shareable = (c.strategy == verbatim || c.strategy == values) && c.flags&flagMayBlock == 0 &&
			!strings.HasPrefix(c.name, "ft.") && !strings.HasPrefix(c.name, "v") && c.name != "shutdown" && c.name != "failover"
		switch c.strategy {
		case controls:
			c.mayWrite = c.name == "exec" || c.name == "flushall" || c.name == "flushdb" || c.name == "function"
		case verbatim:
			c.mayWrite = !isWait(c)
		case computed:
		default:
			c.mayWrite = true
		}
	}
	for name := range strings.FieldsSeq(readCommands) {
		t[name].mayWrite = false
	}
}

func isWait(c *command) bool { return c.name == "wait" || c.name == "waitaof" }

// place gives the client's next request a connection: one that it shares, or one of its own. It reports false if the
// request has been answered.
func (s *session) place(r *request) (ok bool, err error) {
	c := &s.upstream
	sh, cmd := c.sharing, r.cmd
	sh.flags = 0
	if !sh.pinned && c.queue.pushed-sh.committed >= mux.MaxOutstanding {
		if err := c.Flush(); err != nil {
			return false, err
		}
	}
	switch {
	case isWait(cmd) && !c.tx.open:
		return s.placeWait()
	case !sh.pinned && c.answersItself(r):
	case !cmd.shareable || takesSteps(r) || s.reader.inRequest || !sh.pinned && s.needsLogin():
		err = c.pin()
		sh.stays = sh.stays || keepsConnection(r) || cmd.name == "exec" && (c.tx.changesLogin || c.tx.changesState)
		sh.flags = keepFlags(r)
	case !sh.pinned && sh.conn.MovesMuch():
		sh.stays = true
		err = c.pin()
	case sh.pinned && (cmd.mayWrite || !sh.written) && c.isIdle() && s.isPlain():
		c.unpin()
	}
	if err == nil && !sh.pinned && !sh.begun {
		c.state.dialed, err = sh.conn.Begin(c.life.Context())
		sh.begun = err == nil
	}
	if cmd.mayWrite {
		c.noteWrite()
	}
	return err == nil, err
}

// answersItself reports whether the session answers a request about the connection itself.
func (c *upstreamWriter) answersItself(r *request) bool {
	switch r.cmd.name {
	case "quit":
		return true
	case "client":
		return describesLibrary(r) && !c.isUnauthenticated()
	}
	return false
}

// describesLibrary reports whether a request is CLIENT SETINFO as the server accepts it.
func describesLibrary(r *request) bool {
	if len(r.args) != 4 || !resp.IsWord(r.args[1], "setinfo") || !resp.IsWord(r.args[2], "lib-name") && !resp.IsWord(r.args[2], "lib-ver") {
		return false
	}
	return !bytes.ContainsFunc(r.args[3], func(c rune) bool { return c < '!' || c > '~' })
}

// needsLogin reports whether the server requires a login that the client has not passed. Its limits before that would
// end a shared connection.
func (s *session) needsLogin() bool {
	sh := s.upstream.sharing
	if !sh.open {
		sh.open = s.upstream.state.auth.IsOpen() || !s.upstream.isUnauthenticated()
	}
	return !sh.open
}

// takesSteps reports whether a SET takes several requests, because of its options.
func takesSteps(r *request) bool {
	if r.cmd.name != "set" || len(r.args) <= 3 {
		return false
	}
	known, compares, _ := setOptions(r.args[3:])
	return !known || compares
}

// placeWait gives WAIT and WAITAOF the connection of the client's last write, since they wait for what that has
// written.
func (s *session) placeWait() (ok bool, err error) {
	c := &s.upstream
	sh := c.sharing
	if sh.pinned && !sh.written {
		switch {
		case !c.awaitReplies():
			return false, errSessionEnded
		case s.isPlain():
			c.unpin()
		case sh.conn.HasWritten() && !c.isSubscriber():
			return false, c.refuse(textOtherConnection)
		}
	}
	if sh.pinned {
		return true, nil
	}
	if err := c.Flush(); err != nil {
		return false, err
	}
	if ok, c.state.dialed, err = sh.conn.BeginWait(c.life.Context()); err != nil {
		return false, err
	}
	if sh.begun = true; ok {
		return true, nil
	}
	if c.state.dialed, err = sh.conn.Begin(c.life.Context()); err != nil {
		return false, err
	}
	return false, c.refuse(textOtherConnection)
}

const textOtherConnection = "ERR cinch: the connection of this client's last write is gone, so WAIT can't be carried out; set upstream_connections: off"

// keepsConnection reports whether the client keeps its own connection because of a request, whatever the reply.
func keepsConnection(r *request) bool {
	switch r.cmd.name {
	case "monitor", "replconf", "sync", "psync", "readonly", "readwrite", "asking":
		return true
	case "script":
		return len(r.args) > 1 && resp.IsWord(r.args[1], "debug")
	}
	return false
}

// keepFlags returns the flags of a request that changes the state of its connection, or is about the connection itself,
// so that the client keeps it, depending on the reply.
func keepFlags(r *request) (flags entryFlags) {
	if r.cmd.strategy != controls {
		return 0
	}
	switch r.cmd.name {
	case "client":
		if len(r.args) > 1 && !slices.ContainsFunc(passingClientCommands, func(name string) bool { return resp.IsWord(r.args[1], name) }) {
			return flagKeepIfOK
		}
		return 0
	case "hello":
		if slices.ContainsFunc(r.args, func(arg []byte) bool { return resp.IsWord(arg, "setname") }) {
			flags = flagKeepIfOK
		}
	}
	return flags | flagKeepIfError // it may have been carried out in part, or have left MULTI or WATCH
}

// passingClientCommands are the subcommands of CLIENT whose effect does not last, or is known to the session.
var passingClientCommands = []string{"list", "kill", "pause", "unpause", "unblock", "help", "getname", "getredir", "trackinginfo", "reply", "tracking", "setinfo"}

// isPlain reports whether the client's own connection has no state but that of an identity. No reply may be
// outstanding.
func (s *session) isPlain() bool {
	c := &s.upstream
	return !c.sharing.stays && !c.sharing.kept.Load() && !c.tx.open && !c.tx.watch.on && c.state.subscriptions.Load() == 0 && !c.monitoring &&
		!s.user.tracking.Load() && c.state.pendingLogins.Load() == 0 && !c.asking.next
}

// identity returns the identity of the client's connection. No reply may be outstanding.
func (t *sessionState) identity() mux.Identity {
	id := mux.Identity{Database: *t.selected.Load(), Version: int(t.version.Load())}
	if login := t.credentials.Load(); login != nil {
		id.User, id.Password = login.user, login.password
	}
	return id
}

// isShared reports whether the next request goes to a shared connection, unless it needs pin.
func (c *upstreamWriter) isShared() bool { return c.sharing != nil && !c.sharing.pinned }

// pin gives the client a connection of its own, after the replies that are outstanding.
func (c *upstreamWriter) pin() error {
	if !c.isShared() {
		return nil
	}
	if err := c.Flush(); err != nil {
		return err
	}
	dialed, err := c.sharing.conn.Pin(c.life.Context())
	if err != nil {
		return err
	}
	c.queue.followAll()
	c.sharing.failed.Store(false)
	c.sharing.pinned, c.sharing.written, c.state.dialed = true, false, dialed
	return nil
}

// pinForWrite is like pin for a command of several requests.
func (c *upstreamWriter) pinForWrite() error {
	err := c.pin()
	c.noteWrite()
	return err
}

// noteWrite records that the current request may write.
func (c *upstreamWriter) noteWrite() {
	switch {
	case c.sharing == nil:
	case c.sharing.pinned:
		c.sharing.written = true
	default:
		c.sharing.writes = true
	}
}

// unpin gives the client's own connection back.
func (c *upstreamWriter) unpin() {
	c.sharing.conn.Unpin(c.state.identity(), !c.sharing.failed.Swap(false))
	c.sharing.pinned = false
}

// commit sends the requests that were written to a shared connection. more: there is a request of which the rest
// follows.
func (c *upstreamWriter) commit(more bool) error {
	sh := c.sharing
	n := c.queue.pushed - sh.committed
	if !sh.begun {
		sh.committed = c.queue.pushed
		return nil
	}
	writes := sh.writes
	sh.committed, sh.writes, sh.begun = c.queue.pushed, writes && more, more
	return sh.conn.Commit(int(n), writes, more)
}
