package shadow

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/shadow/recording"
)

// RecorderConfig is what a Recorder is made of. Zero fields take Config's defaults.
type RecorderConfig struct {
	Production gateway.Upstream
	ClientTLS  *tls.Config // nil: clients are not asked for TLS
	Opener     Opener      // nil: connections begin with what is passed through
	Filters    Filters     // nil: all is recorded as it came
	Memory     int64
	Bound      time.Duration
	Log        *slog.Logger
}

// Filters make what decides what is recorded.
type Filters interface {
	Filter() Filter
	// Requests is how many there were, and Left those that are not recorded, by reason. Both may be called at any time.
	Requests() uint64
	Left() map[string]int
}

// Filter takes the bytes of one connection before they are recorded, and returns those that are, valid until the next
// call. After an error the connection is recorded no more. Its methods are called by one goroutine.
type Filter interface {
	Request(b []byte) ([]byte, error)
	Reply(b []byte) ([]byte, error)
	// Held is the number of bytes that the Filter keeps.
	Held() int64
}

// Recording is where a Recorder writes: a *recording.File, or what a test has in its place.
type Recording interface {
	Write(r recording.Record) error
	Finish(last recording.Record) error
	Size() int64
}

// Recorder is a pass-through to production that keeps what goes by. Production never waits for it.
type Recorder struct {
	cfg    *Config
	server *gateway.Server
	budget *budget
	tap    *Tap
	in     *entrance
	filter Filters
	to     Recording

	conns map[*tapped]*recorded

	bytes   atomic.Int64 // recorded
	size    atomic.Int64 // of the file
	partial atomic.Int64

	mu   sync.Mutex
	why  string // the recording ended
	err  error
	over chan struct{}
}

// recorded is a connection of which something was recorded.
type recorded struct {
	filter Filter // nil: all is recorded
	held   int64
	given  bool // up
}

// NewRecorder returns one that has not begun.
func NewRecorder(c RecorderConfig, to Recording) *Recorder {
	cfg := Config{Production: c.Production, ClientTLS: c.ClientTLS, Memory: c.Memory, Bound: c.Bound, Log: c.Log}.withDefaults()
	r := &Recorder{budget: newBudget(cfg.Memory), cfg: cfg, filter: c.Filters, to: to, conns: map[*tapped]*recorded{}, over: make(chan struct{})}
	r.tap = newTap(r.budget, cfg.Bound)
	r.in = &entrance{production: cfg.Production, opener: c.Opener, tap: r.tap, log: cfg.Log}
	r.server = &gateway.Server{Name: "record", NewSession: r.in.session, Log: cfg.Log, Stats: gateway.NewStats("record", "record")}
	r.in.encrypt(r.server, cfg.ClientTLS)
	return r
}

// Serve passes clients of l through to production until Shutdown, and records what they do until the recording ends.
func (r *Recorder) Serve(l net.Listener) error {
	go r.record()
	return r.server.Serve(l)
}

// Finish ends the recording behind what has gone by so far. Clients are passed through on.
func (r *Recorder) Finish(why string) {
	r.mu.Lock()
	if r.why == "" {
		r.why = why
	}
	r.mu.Unlock()
	r.tap.close()
}

// Over is closed when the file is whole. Err says then what kept it from that.
func (r *Recorder) Over() <-chan struct{} { return r.over }

// Err is why the file is not whole; nil if it is.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Shutdown ends the recording, and the pass-through.
func (r *Recorder) Shutdown(ctx context.Context) error {
	r.Finish("the recorder was shut down")
	err := r.server.Shutdown(ctx)
	<-r.over
	return err
}

// MemoryLimit is what the process may hold now.
func (r *Recorder) MemoryLimit() int64 { return r.budget.process(r.server.Stats) }

// record writes until the recording ends.
func (r *Recorder) record() {
	var pieces []piece
	var err error
	for err == nil {
		pieces = r.tap.take(pieces)
		for _, p := range pieces {
			if err == nil {
				err = r.handle(p)
			}
			r.tap.free(p)
		}
		r.size.Store(r.to.Size())
		if len(pieces) > 0 {
			continue
		}
		if r.tap.isClosed() {
			break
		}
		if r.tap.off.Load() {
			r.Finish(fmt.Sprintf("it held up more than 1 %% of the traffic for longer than %v", r.cfg.Bound))
			continue
		}
		<-r.tap.wake
	}
	r.end(err)
}

// end writes what the file ends with.
func (r *Recorder) end(err error) {
	if errors.Is(err, recording.ErrFull) {
		r.Finish(err.Error())
		err = nil
	} else if err != nil {
		r.Finish("it could not be written")
	}
	for _, p := range r.tap.take(nil) {
		r.tap.free(p)
	}
	now := time.Now()
	for c, known := range r.conns {
		if c.lost.Load() && !known.given && err == nil {
			if err = r.giveUp(c, known, now); errors.Is(err, recording.ErrFull) {
				err = nil // the reason why the recording ended says it of all
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(err, r.to.Finish(recording.Record{At: now, Bytes: []byte(r.why)}))
	r.size.Store(r.to.Size())
	close(r.over)
}

// handle records a piece.
func (r *Recorder) handle(p piece) error {
	known := r.conns[p.conn]
	if known == nil {
		known = &recorded{}
		if r.filter != nil {
			known.filter = r.filter.Filter()
		}
		r.conns[p.conn] = known
	}
	if p.bytes == nil {
		return r.ended(p, known)
	}
	if known.given {
		return nil
	}
	rec := recording.Record{Kind: recording.FromClient, Conn: p.conn.number, At: p.at, Bytes: p.bytes}
	if p.from != gateway.FromClient {
		rec.Kind = recording.FromServer
	}
	var unclear error
	fits := true
	if known.filter != nil {
		rec.Bytes, unclear = known.filtered(p)
		now := known.filter.Held()
		fits = r.budget.move(reading, now-known.held)
		known.held = now
	}
	if len(rec.Bytes) > 0 {
		r.bytes.Add(int64(len(rec.Bytes)))
		if err := r.to.Write(rec); err != nil {
			return err
		}
	}
	if unclear != nil || !fits {
		return r.giveUp(p.conn, known, p.at)
	}
	return nil
}

func (k *recorded) filtered(p piece) ([]byte, error) {
	if p.from == gateway.FromClient {
		return k.filter.Request(p.bytes)
	}
	return k.filter.Reply(p.bytes)
}

// ended notes the end of a connection.
func (r *Recorder) ended(p piece, known *recorded) error {
	delete(r.conns, p.conn)
	r.budget.free(reading, known.held)
	known.held = 0
	switch {
	case known.given:
		return nil
	case p.conn.lost.Load():
		return r.giveUp(p.conn, known, p.at)
	}
	return r.to.Write(recording.Record{Kind: recording.End, Conn: p.conn.number, At: p.at})
}

// giveUp marks a connection that is recorded no more.
func (r *Recorder) giveUp(c *tapped, known *recorded, at time.Time) error {
	c.lost.Store(true)
	r.budget.free(reading, known.held)
	known.given, known.filter, known.held = true, nil, 0
	r.partial.Add(1)
	return r.to.Write(recording.Record{Kind: recording.Partial, Conn: c.number, At: at})
}

// Recorded is how a recording stands.
type Recorded struct {
	Bytes       int64          `json:"bytes"`              // of clients and servers
	Size        int64          `json:"size"`               // of the file
	Connections uint64         `json:"connections"`        // that were passed through
	Partial     int64          `json:"partial"`            // connections that are not recorded to their end
	Requests    uint64         `json:"requests,omitempty"` // of Filters; 0 without
	Left        map[string]int `json:"left,omitempty"`     // requests that are not recorded, by reason
	Ended       string         `json:"ended"`              // why the recording ended; "": it goes on
}

// State says how the recording stands.
func (r *Recorder) State() Recorded {
	out := Recorded{Bytes: r.bytes.Load(), Size: r.size.Load(), Connections: r.in.connections.Load(), Partial: r.partial.Load() + int64(r.tap.unseen.Load())}
	if r.filter != nil {
		out.Requests, out.Left = r.filter.Requests(), r.filter.Left()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Ended = r.why
	return out
}

// String is the progress in a line.
func (s Recorded) String() string {
	line := fmt.Sprintf("%d bytes of %d connections", s.Bytes, s.Connections)
	if s.Requests > 0 {
		line += fmt.Sprintf(", %d operations", s.Requests)
	}
	line += fmt.Sprintf(", %d bytes in the file", s.Size)
	if s.Partial > 0 {
		line += fmt.Sprintf("; %d connections not recorded to their end", s.Partial)
	}
	for _, why := range sortedKeys(s.Left) {
		line += fmt.Sprintf("; left out %d: %s", s.Left[why], why)
	}
	return line
}
