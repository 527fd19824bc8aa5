package postgres

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// idle is the status of a session outside of transactions, as ReadyForQuery has it.
const idle = 'I'

// tracker follows a conversation: is the server to answer something, is a transaction open? A unit is what the server answers with one
// ReadyForQuery: messages of the extended protocol up to a Sync, a simple query, a function call.
//
// A COPY from the client makes it intricate: the server ignores a Sync while it takes data. A client may send one before it (libpq and
// others with a Sync behind Execute), and may have sent the data too before the server says that it takes it.
type tracker struct {
	status byte // of the transaction
	open   bool // messages of a unit have come, and its end has not
	// units are the ends of those that are not answered: their types, in order. A copyEnd among them is the end of a client's data that
	// came before the server's consent.
	units   []byte
	copying bool // the server takes data
	lost    bool // it can't be followed: its bytes pass, and it counts as busy
}

// copyEnd marks in units that a client's data has ended.
const copyEnd = 'c'

// begins reports whether a message of that type, outside of units, begins one.
func begins(kind byte) bool {
	switch kind {
	case pg.CopyData, pg.CopyDone, pg.CopyFail, pg.Password, pg.Terminate, pg.Flush:
		return false
	}
	return true
}

// busy reports whether anything is under way.
func (t *tracker) busy() bool {
	return t.lost || t.open || t.copying || len(t.units) > 0 || t.status != idle
}

// waits reports whether the server is to answer, or to be told the rest of a unit.
func (t *tracker) waits() bool { return t.open || t.copying || len(t.units) > 0 }

// works reports whether the server may be at work on what it was asked, and will say when it has ended. It is not while it waits for a
// client's data or for the rest of a unit.
func (t *tracker) works() bool { return len(t.units) > 0 && !t.copying && !t.lost }

// asked takes note of a client's message.
func (t *tracker) asked(kind byte) {
	if t.lost {
		return
	}
	switch kind {
	case pg.Query, pg.FunctionCall:
		t.end(kind)
	case pg.Sync:
		if !t.copying {
			t.end(kind)
		}
	case pg.CopyDone, pg.CopyFail:
		if !t.copying && t.waits() {
			t.units = append(t.units, copyEnd)
		}
		t.copying = false
	default:
		t.open = t.open || begins(kind)
	}
}

func (t *tracker) end(kind byte) {
	t.units = append(t.units, kind)
	t.open = false
}

// answered takes note of a server's message.
func (t *tracker) answered(kind byte, body []byte) {
	if t.lost {
		return
	}
	switch kind {
	case pg.ErrorResponse:
		t.copying = false
	case pg.CopyInResponse:
		t.takesData()
	case pg.CopyBothResponse:
		t.loses()
	case pg.ReadyForQuery:
		if len(t.units) == 0 || len(body) != 1 {
			t.loses()
			return
		}
		t.copying = false
		t.units = t.units[1:]
		t.dropEnds()
		t.status = body[0]
	}
}

// loses gives the conversation up.
func (t *tracker) loses() { t.lost, t.units = true, nil }

// dropEnds forgets the ends of data that was not asked for: the server ignores it.
func (t *tracker) dropEnds() {
	n := 0
	for n < len(t.units) && t.units[n] == copyEnd {
		n++
	}
	if t.units = t.units[n:]; len(t.units) == 0 {
		t.units = nil
	}
}

// takesData is called when the server consents to take data for the first unit.
func (t *tracker) takesData() {
	end := bytes.IndexByte(t.units, copyEnd)
	switch {
	case len(t.units) == 0 && !t.open:
		t.loses()
	case len(t.units) == 0:
		t.copying = true
	case t.units[0] != pg.Sync: // a query: its answer ends with the COPY, or behind it
		t.copying = end < 0
		if end >= 0 {
			t.units = append(t.units[:end:end], t.units[end+1:]...)
		}
	default: // what ends a unit before the data has ended is ignored
		t.copying = end < 0
		if end < 0 {
			end = len(t.units) - 1
		}
		if bytes.IndexByte(t.units[:end], pg.Query) >= 0 {
			t.loses()
			return
		}
		t.units = t.units[end+1:]
		t.open = t.open || len(t.units) == 0
	}
}
