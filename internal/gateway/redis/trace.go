package redis

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/trace"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Commands are pipelined, those that are alike are one entry in the queue, and many replies are carried at a time. So an entry
// has no place for a trace: of each client one command at a time is traced, whose reply is known by its number.

// tracing makes the spans of one client's commands. A nil one makes none, and most have none at hand: nobody looks at the clock
// then. What of it is whose is said below; what both pumps need is in the command that is traced.
type tracing struct {
	by              *trace.Tracer
	gateway, server string
	open            trace.Connection
	current         atomic.Pointer[traced] // nil: the next one may be chosen

	hand *traced // of the request pump: the one at hand; nil: it is not traced

	opened time.Duration // of the reply pump: opening took, of the reply at hand
	failed string        // the class of its error
}

// traced is a command that is traced.
type traced struct {
	*trace.Command
	came  time.Time
	since uint64 // requests before

	mu       sync.Mutex
	asked    time.Time // when the span of the upstream began; zero: it has not
	number   uint64    // of the reply that is the client's; 0: not known yet
	answered uint64    // replies so far
	over     bool
	reply    carried
}

// carried is what the reply pump has to say of a reply.
type carried struct {
	number uint64
	came   time.Time
	opened time.Duration
	failed string
}

// newTracing returns nil where no command is traced.
func newTracing(cfg *Config, upstream net.Conn) *tracing {
	if cfg.Tracer == nil {
		return nil
	}
	return &tracing{by: cfg.Tracer, gateway: cfg.Name, server: upstream.RemoteAddr().String()}
}

// systemName is that of spans for which there is no better one, too.
const systemName = "redis"

// begin begins the trace of the command at hand, if it is chosen and no other is under way.
func (t *tracing) begin(cmd *command, before uint64) bool {
	if t.current.Load() != nil || cmd.name == "sync" || cmd.name == "psync" { // a replica's reply has no end
		return false
	}
	c := t.by.Command(&t.open, systemName, time.Time{}, 0)
	if c == nil {
		return false
	}
	c.Set(attribute.String("db.system.name", systemName), attribute.String("cinch.gateway", t.gateway))
	if cmd != unknownCommand && cmd != moduleCommand {
		name := strings.ToUpper(cmd.name)
		c.Is(name, attribute.String("db.operation.name", name))
	}
	c.Goes(attribute.String("server.address", t.server))
	m := &traced{Command: c, came: time.Now(), since: before}
	t.hand = m
	t.current.Store(m)
	if cmd.strategy != values { // whose values are sealed before
		m.asks()
	}
	return true
}

// asks begins the span of the upstream, once.
func (m *traced) asks() {
	if m.asked.IsZero() {
		m.Asks()
		m.asked = time.Now()
	}
}

// sent notes that the current command has been handled, and what sealing its values took: the reply to the last request is the
// client's. It does nothing if that command is not traced.
func (t *tracing) sent(requests uint64, sealing time.Duration) {
	m := t.hand
	if m == nil {
		return
	}
	t.hand = nil
	m.Part("codec request", m.came, sealing)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number = requests
	m.asks()
	if requests == m.since || m.answered >= requests { // it has none, or has had it
		t.finish(m)
	}
}

// begins takes notice of a reply that begins with b, the number'th. It belongs to the reply pump, as ends does.
func (t *tracing) begins(number uint64, in *resp.Reader, head byte) {
	m := t.current.Load()
	if m == nil {
		return
	}
	t.opened, t.failed = 0, ""
	if head == resp.Error {
		line, _ := in.Line() // a longer one is not begun to be carried
		t.failed = errorPrefix(line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.number == 0 || m.number == number {
		m.reply = carried{number: number, came: time.Now()}
	}
}

// ends takes notice that so many replies are with the client.
func (t *tracing) ends(number uint64) {
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

// finish ends a command whose reply the client has. m.mu is held.
func (t *tracing) finish(m *traced) {
	if m.over {
		return
	}
	m.over = true
	r := &m.reply
	if r.number != m.number { // it came with others
		r = &carried{came: time.Now()}
	}
	if r.came.Before(m.asked) {
		r.came = m.asked
	}
	m.Answered("", r.came)
	m.Part("codec reply", r.came, r.opened)
	if r.failed != "" {
		m.Fails(r.failed, attribute.String("db.response.status_code", r.failed))
	}
	m.End("")
	t.current.Store(nil)
}

// broken notes that a value of the reply at hand did not open.
func (t *tracing) broken() {
	if t != nil {
		t.failed = "not_opened"
	}
}

// close ends what is under way when the connection has ended.
func (t *tracing) close() {
	if t != nil {
		t.open.End()
	}
}

// errorPrefix is the first word of an error, if servers have such a one: scripts word errors of their own.
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
