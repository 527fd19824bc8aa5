package redis

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Commands are pipelined, equal ones share one entry in the queue, and many replies are carried at a time. So an entry
// can't hold the trace of one command. Instead one command of a client is traced at a time, and its reply is found by
// its number.

// tracing makes the spans of one client's commands. A nil tracing makes none. Most commands are not traced,
// and then the clock is not read. Each field belongs to one pump, as noted; data of both pumps is in traced.
type tracing struct {
	tracer          *trace.Tracer
	gateway, server string
	open            trace.Connection
	current         atomic.Pointer[traced] // nil: the next command may be chosen

	sending *traced // of the request pump: the current command; nil: it is not traced

	opened time.Duration // of the reply pump: time spent decompressing the current reply
	failed string        // of the reply pump: error class of the current reply
}

// traced is a command that is traced.
type traced struct {
	*trace.Command
	arrived time.Time
	before  uint64 // number of requests before it

	mu            sync.Mutex
	upstreamStart time.Time // start of the upstream span; zero: not started
	number        uint64    // of the reply that the client gets; 0: not known yet
	answered      uint64    // replies so far
	ended         bool
	reply         carriedReply
}

// carriedReply describes a reply that the reply pump has carried.
type carriedReply struct {
	number  uint64
	arrived time.Time
	opened  time.Duration
	failed  string
}

// newTracing returns nil if no command is traced.
func newTracing(cfg *Config, upstream net.Conn) *tracing {
	if cfg.Tracer == nil {
		return nil
	}
	return &tracing{tracer: cfg.Tracer, gateway: cfg.Name, server: upstream.RemoteAddr().String()}
}

// systemName is also the name of spans for which there is no better one.
const systemName = "redis"

// begin starts tracing the current command if it is chosen and no other is being traced, and reports whether it did.
// before is the number of requests sent before the command.
func (t *tracing) begin(cmd *command, before uint64) bool {
	if t.current.Load() != nil || cmd.name == "sync" || cmd.name == "psync" { // a replica's reply has no end
		return false
	}
	c := t.tracer.StartCommand(&t.open, systemName, time.Time{}, 0)
	if c == nil {
		return false
	}
	c.Set(attribute.String("db.system.name", systemName), attribute.String("cinch.gateway", t.gateway))
	if cmd != unknownCommand && cmd != moduleCommand {
		name := strings.ToUpper(cmd.name)
		c.SetName(name, attribute.String("db.operation.name", name))
	}
	c.SetUpstreamAttributes(attribute.String("server.address", t.server))
	m := &traced{Command: c, arrived: time.Now(), before: before}
	t.sending = m
	t.current.Store(m)
	if cmd.strategy != values { // for values commands, sent starts it after compressing
		m.startUpstream()
	}
	return true
}

// startUpstream starts the upstream span, once.
func (m *traced) startUpstream() {
	if m.upstreamStart.IsZero() {
		m.StartUpstream()
		m.upstreamStart = time.Now()
	}
}

// sent records that the current command has been handled and how long compressing its values took. The client
// gets the reply to the last of requests. It does nothing if the command is not traced.
func (t *tracing) sent(requests uint64, sealing time.Duration) {
	m := t.sending
	if m == nil {
		return
	}
	t.sending = nil
	m.AddSpan("codec request", m.arrived, sealing)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number = requests
	m.startUpstream()
	if requests == m.before || m.answered >= requests { // no reply, or it has arrived
		t.finish(m)
	}
}

// beginReply records the start of a reply with its first byte head. Like endReply it must be called by the reply
// pump.
func (t *tracing) beginReply(number uint64, in *resp.Reader, head byte) {
	m := t.current.Load()
	if m == nil {
		return
	}
	t.opened, t.failed = 0, ""
	if head == resp.Error {
		line, _ := in.Line() // nil if the line is longer than the buffer; consumes nothing
		t.failed = errorPrefix(line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.number == 0 || m.number == number {
		m.reply = carriedReply{number: number, arrived: time.Now()}
	}
}

// endReply records that the client has number replies.
func (t *tracing) endReply(number uint64) {
	m := t.current.Load()
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reply.number == number {
		m.reply.opened, m.reply.failed = t.opened, t.failed
	}
	if m.answered = number; m.number != 0 && number >= m.number {
		t.finish(m)
	}
}

// finish ends the trace of a command whose reply the client has. m.mu must be held.
func (t *tracing) finish(m *traced) {
	if m.ended {
		return
	}
	m.ended = true
	r := &m.reply
	if r.number != m.number { // its reply was carried together with earlier ones
		r = &carriedReply{arrived: time.Now()}
	}
	if r.arrived.Before(m.upstreamStart) {
		r.arrived = m.upstreamStart
	}
	m.EndUpstream("", r.arrived)
	m.AddSpan("codec reply", r.arrived, r.opened)
	if r.failed != "" {
		m.RecordError(r.failed, attribute.String("db.response.status_code", r.failed))
	}
	m.End("")
	t.current.Store(nil)
}

// recordCorrupt records that a value of the current reply cannot be decompressed.
func (t *tracing) recordCorrupt() {
	if t != nil {
		t.failed = "not_opened"
	}
}

// close ends the current spans when the connection has ended.
func (t *tracing) close() {
	if t != nil {
		t.open.End()
	}
}

// errorPrefix returns the first word of an error if servers use it, otherError otherwise: scripts make up
// errors.
func errorPrefix(line []byte) string {
	if len(line) == 0 {
		return otherError
	}
	word, _, _ := strings.Cut(strings.TrimSpace(string(line[1:min(len(line), maxErrorPrefix+1)])), " ")
	if errorPrefixes[word] {
		return word
	}
	return otherError
}

const (
	maxErrorPrefix = 20
	otherError     = "other"
)

var errorPrefixes = func() map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(`ASK BUSY BUSYGROUP BUSYKEY CLUSTERDOWN CROSSSLOT DENIED ERR EXECABORT INPROG INVALIDOBJ IOERR LOADING
		MASTERDOWN MISCONF MOVED NOAUTH NOGOODSLAVE NOGROUP NOMASTERLINK NOPERM NOPROTO NOREPLICAS NOSCRIPT NOTBUSY NOTREADY OOM
		READONLY TRYAGAIN UNBLOCKED UNKILLABLE WRONGPASS WRONGTYPE`) {
		m[word] = true
	}
	return m
}()
