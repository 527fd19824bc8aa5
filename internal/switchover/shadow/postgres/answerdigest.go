package postgres

import (
	"bytes"
	"hash/maphash"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Forms of operations, and of their answers.
const (
	formRows    uint8 = 0         // rows in any order
	formOrdered uint8 = 1 << iota // rows in their order
	formCounts                    // rows are counted, not compared
	formStart                     // the operation begins a connection
	formEnd                       // it ends one
)

// Transaction states, as in ReadyForQuery.
const (
	idle     = 'I'
	inside   = 'T'
	inFailed = 'E'
)

// seed of the digests. They are compared only within one process.
var seed = maphash.MakeSeed()

// digest sums up what is compared of an answer, message by message. It leaves out the texts of errors and
// notices.
type digest struct {
	form uint8
	sum  uint64 // over the messages in order
	set  uint64 // over the rows since the last other message, in any order
	n    int    // rows
	code string // SQLSTATE of the first error

	excluded *exclusions // nil: nothing is left out
	results  int         // completed results
	kept     []byte      // buffer for the compared part of a row

	showsData bool // the answer shows data: rows, or their number

	addedTransaction bool // the tool added the transaction: the client has none
	storeRows        bool // store the rows
	nondeterministic bool // rows differ by nature: store only their number
	rows
}

func (d *digest) add(m pg.Message) {
	switch m.Type {
	case pg.NoticeResponse, pg.NotificationResponse, pg.ParameterStatus:
	case pg.DataRow, pg.CopyData:
		d.row(m.Body)
	case pg.RowDescription:
		d.describe(m.Body)
	case pg.ParameterDescription:
		d.mix(m.Type)
	case pg.ErrorResponse:
		code := pg.Code(m.Body)
		if d.code == "" {
			d.code = code
		}
		d.mix(m.Type, []byte(code)...)
	case pg.ReadyForQuery:
		if d.addedTransaction {
			m.Body = []byte{idle}
		}
		d.mix(m.Type, m.Body...)
	default:
		d.mix(m.Type, m.Body...)
		d.showsData = d.showsData || m.Type == pg.CommandComplete && hasNumber(m.Body)
		if m.Type == pg.CommandComplete || m.Type == pg.EmptyQueryResponse || m.Type == pg.PortalSuspended {
			d.results++
		}
	}
}

// hasNumber reports whether a command tag ends with a number of rows.
func hasNumber(tag []byte) bool {
	tag = bytes.TrimSuffix(tag, zero)
	return len(tag) > 0 && tag[len(tag)-1] >= '0' && tag[len(tag)-1] <= '9'
}

func (d *digest) row(body []byte) {
	d.n++
	d.showsData = true
	if left := d.excluded.columns(d.results); len(left) > 0 {
		d.kept = appendKept(d.kept[:0], body, left)
		body = d.kept
	}
	switch {
	case d.storeRows && d.nondeterministic:
		d.rows.add(0)
	case d.storeRows:
		d.rows.add(maphash.Bytes(seed, body))
	}
	switch {
	case d.form&formCounts != 0:
		d.set++
	case d.form&formOrdered != 0:
		d.mix(pg.DataRow, body...)
	default:
		d.set += maphash.Bytes(seed, body)
	}
}

// describe adds those properties of columns that are the same at servers with the same schema.
func (d *digest) describe(body []byte) {
	columns, err := pg.Columns(body)
	if err != nil {
		d.mix(pg.RowDescription, body...)
		return
	}
	for _, c := range columns {
		if c.Type >= firstUserOID {
			c.Type = firstUserOID
		}
		d.mix(pg.RowDescription, c.Name...)
		d.sum = d.sum*31 + uint64(c.Type)<<16 + uint64(c.Format)
	}
}

// mix adds a message at its position.
func (d *digest) mix(kind byte, body ...byte) {
	d.sum = (d.sum^d.set)*0x9e3779b97f4a7c15 + maphash.Bytes(seed, body) + uint64(kind)
	d.set = 0
}

// answer returns the answer after all messages have come.
func (d *digest) answer(took time.Duration) shadow.Answer {
	d.mix(pg.ReadyForQuery)
	return shadow.Answer{Digest: d.sum, Error: d.code, Missing: d.n == 0, Bare: !d.showsData, Took: took}
}

// rows counts the rows of an answer by the hash of what is compared.
type rows struct{ of map[uint64]int }

func (r *rows) add(sum uint64) {
	if r.of == nil {
		r.of = map[uint64]int{}
	}
	r.of[sum]++
}

// without returns how many rows are not in others.
func (r *rows) without(others map[uint64]int) (n int) {
	for sum, times := range r.of {
		n += max(0, times-others[sum])
	}
	return n
}

func (r *rows) count() (n int) {
	for _, times := range r.of {
		n += times
	}
	return n
}
