package shadow

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
)

// RecorderConfig configures a Recorder. Zero fields take Config's defaults.
type RecorderConfig struct {
	Production endpoint.Upstream
	ClientTLS  *tls.Config // nil: clients are not asked for TLS
	Opener     Opener      // nil: all bytes are passed through
	Filters    Filters     // nil: all bytes are recorded unchanged
	Memory     int64
	Bound      time.Duration
	Log        *slog.Logger
}

// Filters makes the Filter of each connection.
type Filters interface {
	Filter() Filter
	// Requests returns the number of requests, Left the number of those that were not recorded, by reason.
	// Both are safe for concurrent use.
	Requests() uint64
	Left() map[string]int
}

// Filter filters the bytes of one connection before they are recorded, and returns those to record, valid
// until the next call. After an error the connection is not recorded any more. Its methods are called by one
// goroutine.
type Filter interface {
	Request(b []byte) ([]byte, error)
	Reply(b []byte) ([]byte, error)
	// Held returns the number of bytes that the Filter buffers.
	Held() int64
}

// Recording is the destination of a Recorder: a *recording.File, or a fake in tests.
type Recording interface {
	Write(r recording.Record) error
	Finish(last recording.Record) error
	Size() int64
}

// Recorder passes clients through to production and records their traffic. Production never waits for it.
type Recorder struct {
	cfg    *Config
	server *gateway.Server
	budget *budget
	tap    *Tap
	proxy  *proxy
	filter Filters
	to     Recording

	conns map[*clientConn]*recorded

	bytes   atomic.Int64 // recorded
	size    atomic.Int64 // of the file
	partial atomic.Int64

	mu   sync.Mutex
	why  string // reason why the recording ended
	err  error
	over chan struct{}
}

// recorded is the state of a connection that is recorded.
type recorded struct {
	filter    Filter // nil: all is recorded
	held      int64
	abandoned bool // the rest of the connection is not recorded
}

// NewRecorder returns a Recorder that has not begun.
func NewRecorder(c RecorderConfig, to Recording) *Recorder {
	cfg := Config{Production: c.Production, ClientTLS: c.ClientTLS, Memory: c.Memory, Bound: c.Bound, Log: c.Log}.withDefaults()
	r := &Recorder{budget: newBudget(cfg.Memory), cfg: cfg, filter: c.Filters, to: to, conns: map[*clientConn]*recorded{}, over: make(chan struct{})}
	r.tap = newTap(r.budget, cfg.Bound)
	r.proxy = &proxy{production: cfg.Production, opener: c.Opener, tap: r.tap, log: cfg.Log}
	r.server = &gateway.Server{Name: "record", NewSession: r.proxy.session, Log: cfg.Log, Stats: gateway.NewStats("record", "record")}
	r.proxy.encrypt(r.server, cfg.ClientTLS)
	return r
}

// Serve passes clients of l through to production until Shutdown, and records their traffic until the
// recording ends.
func (r *Recorder) Serve(l net.Listener) error {
	go r.record()
	return r.server.Serve(l)
}

// Finish ends the recording after the bytes queued so far. Clients continue to be passed through.
func (r *Recorder) Finish(why string) {
	r.mu.Lock()
	if r.why == "" {
		r.why = why
	}
	r.mu.Unlock()
	r.tap.close()
}

// Over is closed when the recording has ended. From then on Err tells whether the file is complete.
func (r *Recorder) Over() <-chan struct{} { return r.over }

// Err returns why the file is incomplete; nil if it is complete.
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

// MemoryLimit returns the bytes that the process may use now.
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
			r.Finish(fmt.Sprintf("it delayed more than 1 %% of the traffic by more than %v (--bound)", r.cfg.Bound))
			continue
		}
		<-r.tap.wake
	}
	r.end(err)
}

// end writes the last records.
func (r *Recorder) end(err error) {
	if errors.Is(err, recording.ErrFull) {
		r.Finish(err.Error())
		err = nil
	} else if err != nil {
		r.Finish("the file could not be written")
	}
	for _, p := range r.tap.take(nil) {
		r.tap.free(p)
	}
	now := time.Now()
	for c, known := range r.conns {
		if c.lost.Load() && !known.abandoned && err == nil {
			if err = r.giveUp(c, known, now); errors.Is(err, recording.ErrFull) {
				err = nil // the reason why the recording ended covers this
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
	if known.abandoned {
		return nil
	}
	rec := recording.Record{Kind: recording.FromClient, Conn: p.conn.number, At: p.at, Bytes: p.bytes}
	if p.from != memory.FromClient {
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
	if p.from == memory.FromClient {
		return k.filter.Request(p.bytes)
	}
	return k.filter.Reply(p.bytes)
}

// ended records the end of a connection.
func (r *Recorder) ended(p piece, known *recorded) error {
	delete(r.conns, p.conn)
	r.budget.free(reading, known.held)
	known.held = 0
	switch {
	case known.abandoned:
		return nil
	case p.conn.lost.Load():
		return r.giveUp(p.conn, known, p.at)
	}
	return r.to.Write(recording.Record{Kind: recording.End, Conn: p.conn.number, At: p.at})
}

// giveUp stops recording a connection, and marks that in the file.
func (r *Recorder) giveUp(c *clientConn, known *recorded, at time.Time) error {
	c.lost.Store(true)
	r.budget.free(reading, known.held)
	known.abandoned, known.filter, known.held = true, nil, 0
	r.partial.Add(1)
	return r.to.Write(recording.Record{Kind: recording.Partial, Conn: c.number, At: at})
}

// Recorded is the state of a recording.
type Recorded struct {
	Bytes       int64          `json:"bytes"`              // from clients and servers
	Size        int64          `json:"size"`               // of the file
	Connections uint64         `json:"connections"`        // passed through
	Partial     int64          `json:"partial"`            // connections not recorded to their end
	Requests    uint64         `json:"requests,omitempty"` // counted by Filters; 0 without
	Left        map[string]int `json:"left,omitempty"`     // requests not recorded, by reason
	Ended       string         `json:"ended"`              // why the recording ended; "": it continues
}

// State returns the state of the recording.
func (r *Recorder) State() Recorded {
	out := Recorded{Bytes: r.bytes.Load(), Size: r.size.Load(), Connections: r.proxy.connections.Load(), Partial: r.partial.Load() + int64(r.tap.unseen.Load())}
	if r.filter != nil {
		out.Requests, out.Left = r.filter.Requests(), r.filter.Left()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Ended = r.why
	return out
}

// String returns the progress in one line.
func (s Recorded) String() string {
	line := fmt.Sprintf("%d bytes of %d connections", s.Bytes, s.Connections)
	if s.Requests > 0 {
		line += fmt.Sprintf(", %d operations", s.Requests)
	}
	line += fmt.Sprintf(", %d bytes in the file", s.Size)
	if s.Partial > 0 {
		line += fmt.Sprintf("; %d connections recorded incompletely", s.Partial)
	}
	for _, why := range slices.Sorted(maps.Keys(s.Left)) {
		line += fmt.Sprintf("; left out %d: %s", s.Left[why], why)
	}
	return line
}
