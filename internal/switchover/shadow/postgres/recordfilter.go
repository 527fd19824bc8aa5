package postgres

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Filters selects what of PostgreSQL's traffic is recorded: all but logins, cancellation keys, passwords in
// statements, and messages that servers send unasked.
type Filters struct{ requests atomic.Uint64 }

// NewFilters returns new Filters.
func NewFilters() *Filters { return &Filters{} }

// Filter returns a filter for a new connection.
func (f *Filters) Filter() shadow.Filter { return &filter{filters: f} }

// Requests returns how many units clients have sent.
func (f *Filters) Requests() uint64 { return f.requests.Load() }

// Left returns nil: no unit is left out as a whole.
func (f *Filters) Left() map[string]int { return nil }

// filter is the filter of one connection.
type filter struct {
	filters  *Filters
	in, out  []byte
	started  bool
	isCancel bool // the connection is a cancellation: nothing is recorded
	ready    bool // logged in
	recorded []byte
}

// keptBytes is the largest output buffer that is kept for the next call.
const keptBytes = 64 << 10

// Held returns the number of buffered bytes.
func (f *filter) Held() int64 { return int64(cap(f.in) + cap(f.out) + cap(f.recorded)) }

// Request adds bytes from the client and returns the messages to record. They are valid until the next call.
func (f *filter) Request(b []byte) ([]byte, error) {
	f.recorded = shadow.Emptied(f.recorded, keptBytes)
	if f.isCancel {
		return nil, nil
	}
	f.in = append(f.in, b...)
	if err := f.start(); err != nil || !f.started {
		return f.recorded, err
	}
	err := each(&f.in, f.handleRequest)
	return f.recorded, err
}

// start handles the first packet once it is complete. It names the user and the database; the proof comes in
// later messages.
func (f *filter) start() error {
	if f.started || len(f.in) < pg.StartupHeaderBytes {
		return nil
	}
	n, code, err := pg.StartupHead(f.in)
	if err != nil || len(f.in) < n {
		return err
	}
	if f.started = code != pg.CancelRequest; !f.started {
		f.isCancel, f.in = true, nil
		return nil
	}
	f.recorded = append(f.recorded, f.in[:n]...)
	f.in = shadow.Remainder(f.in, f.in[n:])
	return nil
}

// each calls take for the complete messages in b and removes them from b.
func each(b *[]byte, take func(pg.Message) error) error {
	for left := *b; ; {
		m, ok, err := pg.Cut(left)
		if err != nil {
			return err
		}
		if !ok {
			*b = shadow.Remainder(*b, left)
			return nil
		}
		if err := take(m); err != nil {
			return err
		}
		left = left[len(m.Raw):]
	}
}

// handleRequest handles a message from the client.
func (f *filter) handleRequest(m pg.Message) error {
	switch m.Type {
	case pg.Password:
		return nil
	case pg.Query:
		text, rest, err := pg.String(m.Body)
		if err != nil {
			return err
		}
		f.filters.requests.Add(1)
		f.recorded = pg.Append(f.recorded, m.Type, []byte(sql.HidePasswords(text)), zero, rest)
		return nil
	case pg.Parse:
		name, text, err := pg.TwoStrings(m.Body)
		if err != nil {
			return err
		}
		rest := m.Body[len(name)+1+len(text)+1:]
		f.recorded = pg.Append(f.recorded, m.Type, []byte(name), zero, []byte(sql.HidePasswords(text)), zero, rest)
		return nil
	case pg.Sync, pg.FunctionCall:
		f.filters.requests.Add(1)
	}
	f.recorded = append(f.recorded, m.Raw...)
	return nil
}

var zero = []byte{0}

// Reply adds bytes from the server and returns the messages to record. They are valid until the next call.
func (f *filter) Reply(b []byte) ([]byte, error) {
	f.recorded = shadow.Emptied(f.recorded, keptBytes)
	if f.isCancel {
		return nil, nil
	}
	f.out = append(f.out, b...)
	err := each(&f.out, f.handleReply)
	return f.recorded, err
}

// handleReply handles a message from the server.
func (f *filter) handleReply(m pg.Message) error {
	switch m.Type {
	case pg.NoticeResponse, pg.NotificationResponse, pg.ParameterStatus:
		return nil
	}
	if f.ready = f.ready || m.Type == pg.ReadyForQuery; f.ready {
		f.recorded = append(f.recorded, m.Raw...)
	}
	return nil
}
