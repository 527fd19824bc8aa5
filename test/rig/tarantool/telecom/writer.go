package telecom

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// writer appends JSON without white space.
type writer struct {
	b     []byte
	comma bool // before the next key or element
}

func (w *writer) separate() {
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
}

func (w *writer) key(name string) {
	w.separate()
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *writer) text(name, v string) {
	w.key(name)
	w.b = append(append(append(w.b, '"'), v...), '"')
}

func (w *writer) int(name string, v int) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, int64(v), 10)
}

func (w *writer) bool(name string, v bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, v)
}

// cents writes an amount with two decimals.
func (w *writer) cents(name string, v int) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, int64(v/100), 10)
	w.b = append(w.b, '.', byte('0'+v/10%10), byte('0'+v%10))
}

// time writes a time given in Unix milliseconds.
func (w *writer) time(name string, at int64) { w.at(name, at, "\"2006-01-02T15:04:05.000Z\"") }

func (w *writer) date(name string, at int64) { w.at(name, at, "\"2006-01-02\"") }

func (w *writer) at(name string, at int64, layout string) {
	w.key(name)
	w.b = time.UnixMilli(at).UTC().AppendFormat(w.b, layout)
}

// number writes a number of seven digits after a prefix.
func (w *writer) number(name, prefix string, n int) {
	w.key(name)
	w.b = append(append(w.b, '"'), prefix...)
	for unit := 1_000_000; unit > 0; unit /= 10 {
		w.b = append(w.b, byte('0'+n/unit%10))
	}
	w.b = append(w.b, '"')
}

const newest = 1_795_000_000_000 // in Unix milliseconds, November 2026

// digits writes n decimal digits after a prefix.
func (w *writer) digits(name, prefix string, r *rand.Rand, n int) {
	w.key(name)
	w.b = append(append(w.b, '"'), prefix...)
	for range n {
		w.b = append(w.b, byte('0'+r.IntN(10)))
	}
	w.b = append(w.b, '"')
}

// object writes an object under a key, or as a list element if the name is "".
func (w *writer) object(name string, content func()) { w.nest(name, '{', content, '}') }

func (w *writer) list(name string, content func()) { w.nest(name, '[', content, ']') }

func (w *writer) nest(name string, open byte, content func(), end byte) {
	if name == "" {
		w.separate()
	} else {
		w.key(name)
	}
	w.b = append(w.b, open)
	w.comma = false
	content()
	w.b = append(w.b, end)
	w.comma = true
}
