package postgres

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// idle is the status of a session outside of transactions, as in ReadyForQuery.
const idle = 'I'

// tracker follows the protocol to know whether the server still has to reply, and whether a transaction is open.
// The server answers each unit with one ReadyForQuery. A unit is a simple query, a function call, or messages of
// the extended protocol up to a Sync.
//
// COPY from the client complicates this: the server ignores a Sync while it reads data. A client may send a
// Sync before the data (libpq and others send one after Execute), and may send the data before the server's
// CopyInResponse.
type tracker struct {
	status byte // of the last ReadyForQuery
	open   bool // part of a unit has come, and its end has not
	// units holds the types of the messages that end the unanswered units, in order. A copyEnd among them is
	// the end of COPY data that came before the server's CopyInResponse.
	units   []byte
	copying bool // the server reads COPY data
	lost    bool // no longer tracked: everything is forwarded, and the session counts as busy
}

// copyEnd marks the end of a client's COPY data in units.
const copyEnd = 'c'

// beginsUnit reports whether a message of that type, outside of units, begins one.
func beginsUnit(kind byte) bool {
	switch kind {
	case pg.CopyData, pg.CopyDone, pg.CopyFail, pg.Password, pg.Terminate, pg.Flush:
		return false
	}
	return true
}

// busy reports whether a unit or a transaction is in progress.
func (t *tracker) busy() bool {
	return t.lost || t.open || t.copying || len(t.units) > 0 || t.status != idle
}

// unanswered reports whether the server still has to reply, or expects the rest of a unit.
func (t *tracker) unanswered() bool { return t.open || t.copying || len(t.units) > 0 }

// executing reports whether the server may be executing something whose end it will report. It is false while the
// server waits for COPY data or for the rest of a unit.
func (t *tracker) executing() bool { return len(t.units) > 0 && !t.copying && !t.lost }

// request records a client's message.
func (t *tracker) request(kind byte) {
	if t.lost {
		return
	}
	switch kind {
	case pg.Query, pg.FunctionCall:
		t.endUnit(kind)
	case pg.Sync:
		if !t.copying {
			t.endUnit(kind)
		}
	case pg.CopyDone, pg.CopyFail:
		if !t.copying && t.unanswered() {
			t.units = append(t.units, copyEnd)
		}
		t.copying = false
	default:
		t.open = t.open || beginsUnit(kind)
	}
}

func (t *tracker) endUnit(kind byte) {
	t.units = append(t.units, kind)
	t.open = false
}

// reply records a server's message.
func (t *tracker) reply(kind byte, body []byte) {
	if t.lost {
		return
	}
	switch kind {
	case pg.ErrorResponse:
		t.copying = false
	case pg.CopyInResponse:
		t.copyIn()
	case pg.CopyBothResponse:
		t.lose()
	case pg.ReadyForQuery:
		if len(t.units) == 0 || len(body) != 1 {
			t.lose()
			return
		}
		t.copying = false
		t.units = t.units[1:]
		t.dropCopyEnds()
		t.status = body[0]
	}
}

// lose stops tracking.
func (t *tracker) lose() { t.lost, t.units = true, nil }

// dropCopyEnds removes leading ends of unrequested COPY data, which the server ignores.
func (t *tracker) dropCopyEnds() {
	n := 0
	for n < len(t.units) && t.units[n] == copyEnd {
		n++
	}
	if t.units = t.units[n:]; len(t.units) == 0 {
		t.units = nil
	}
}

// copyIn handles the server's CopyInResponse for the first unit.
func (t *tracker) copyIn() {
	end := bytes.IndexByte(t.units, copyEnd)
	switch {
	case len(t.units) == 0 && !t.open:
		t.lose()
	case len(t.units) == 0:
		t.copying = true
	case t.units[0] != pg.Sync: // a query: its reply ends with the COPY or after it
		t.copying = end < 0
		if end >= 0 {
			t.units = append(t.units[:end:end], t.units[end+1:]...)
		}
	default: // Syncs before the end of the data are ignored
		t.copying = end < 0
		if end < 0 {
			end = len(t.units) - 1
		}
		if bytes.IndexByte(t.units[:end], pg.Query) >= 0 {
			t.lose()
			return
		}
		t.units = t.units[end+1:]
		t.open = t.open || len(t.units) == 0
	}
}
