package redis

import (
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// A key that expires does so by its server's clock, so two targets end it at different places among the operations: one has counted on where
// the other begins anew, and they stay apart. So the mirror ends keys. What gives a key a time to live gives it ten years more at the targets,
// and when production's time is up an operation of the mirror's own ends it, which has its place in the order as all others have.
//
//	client     SET k v PX 500                                   SET k w NX
//	targets    SET k v PX 315360000500       PEXPIRE k 0 XX     SET k w NX
//
// XX leaves alone what has no time to live any more. Between what is surely before the end and what is surely behind it, answers tell: when
// production answers as it does where there is no key, that is the moment. Scripts set times of their own: behind a script its keys get their ten
// years, and the targets say what they had.
//
// It takes servers from 7.0 on, for XX. Times that are longer than a run are left alone.
const (
	tenYears   = 10 * 365 * 24 * time.Hour
	longestRun = 30 * 24 * time.Hour
)

// slack is how much later than it should a deadline is kept, since what was sent before it may be answered behind it.
const slack = 200 * time.Millisecond

// tick is what servers' clocks leave open.
const tick = 2 * time.Millisecond

// term is where a request has a time to live.
type term struct {
	at       int // argument
	unit     time.Duration
	absolute bool
}

// terms of commands that have it in one place.
var terms = map[string]term{
	"setex": {2, time.Second, false}, "psetex": {2, time.Millisecond, false}, "restore": {2, time.Millisecond, false},
	"expire": {2, time.Second, false}, "pexpire": {2, time.Millisecond, false}, "expireat": {2, time.Second, true}, "pexpireat": {2, time.Millisecond, true},
	"hexpire": {2, time.Second, false}, "hpexpire": {2, time.Millisecond, false}, "hexpireat": {2, time.Second, true}, "hpexpireat": {2, time.Millisecond, true},
}

// optional are those that have it behind a word, and from which argument on there may be one.
var optional = map[string]int{"set": 3, "getex": 2, "hgetex": 2, "hsetex": 2}

// termOf finds a request's.
func termOf(name string, args [][]byte) (t term, ok bool) {
	if t, ok = terms[name]; ok {
		if name == "restore" && slices.ContainsFunc(args[min(4, len(args)):], func(a []byte) bool { return resp.IsWord(a, "absttl") }) {
			t.absolute = true
		}
		return t, t.at < len(args)
	}
	from, ok := optional[name]
	if name == "msetex" && len(args) > 1 {
		n, _ := resp.ParseCount(args[1])
		from, ok = 2+2*min(n, len(args)), true
	}
	for i := from; ok && i+1 < len(args) && !resp.IsWord(args[i], "fields"); i++ {
		switch {
		case resp.IsWord(args[i], "ex"):
			return term{i + 1, time.Second, false}, true
		case resp.IsWord(args[i], "px"):
			return term{i + 1, time.Millisecond, false}, true
		case resp.IsWord(args[i], "exat"):
			return term{i + 1, time.Second, true}, true
		case resp.IsWord(args[i], "pxat"):
			return term{i + 1, time.Millisecond, true}, true
		}
	}
	return term{}, false
}

// lengthen gives what production has given a time to live ten years more, and notes when production ends it.
func (r *reader) lengthen(op *shadow.Operation, q request, reply []byte, at time.Time) {
	if !r.p.keepsTime {
		return
	}
	r.moved(q, reply, at)
	t, ok := termOf(q.name, q.args)
	if !ok || reply[0] == resp.Error || reply[0] == resp.BulkError {
		return
	}
	n, ok := resp.ParseInt(q.args[t.at])
	if !ok || n <= 0 || n > int64(longestRun/t.unit) && !t.absolute {
		return // it ends now, or not while we are here
	}
	from, to := q.at, at
	if t.absolute {
		from, to = time.Unix(0, 0), time.Unix(0, 0)
		if n > (at.UnixNano()+int64(longestRun))/int64(t.unit) || n <= at.UnixNano()/int64(t.unit) {
			return
		}
	}
	life := time.Duration(n) * t.unit
	all := r.subjects(q)
	for _, s := range all {
		if !r.p.deadlines.fits(s, to.Add(life).Sub(at)) {
			return // all of a command's, or none
		}
	}
	sent := slices.Clone(q.args)
	sent[t.at] = strconv.AppendInt(nil, n+int64(tenYears/t.unit), 10)
	op.Request = resp.AppendArgs(nil, sent)
	for i, s := range all {
		if got(q, reply, i) {
			r.p.deadlines.set(deadline{subject: s, from: from.Add(life), to: to.Add(life + slack), made: at})
		}
	}
}

// subjects of a request that has a term.
func (r *reader) subjects(q request) (all []subject) {
	if fields, ok := fieldsOf(q); ok {
		for _, f := range fields {
			all = append(all, subject{r.db, string(q.args[1]), string(f), true})
		}
		return all
	}
	keys, _ := q.keysOf(q.args)
	for _, k := range keys {
		all = append(all, subject{db: r.db, key: string(k)})
	}
	return all
}

// fieldsOf are those behind FIELDS, of commands that have them.
func fieldsOf(q request) (fields [][]byte, ok bool) {
	step := 1
	switch q.name {
	case "hsetex":
		step = 2
	case "hgetex", "hexpire", "hpexpire", "hexpireat", "hpexpireat":
	default:
		return nil, false
	}
	i := slices.IndexFunc(q.args, func(a []byte) bool { return resp.IsWord(a, "fields") })
	for i += 2; i > 1 && i < len(q.args); i += step {
		fields = append(fields, q.args[i])
	}
	return fields, true
}

// got reports whether the i-th subject of a request that succeeded has its new time to live.
func got(q request, reply []byte, i int) bool {
	h, body := head(reply)
	has := func(word string) bool {
		return slices.ContainsFunc(q.args[min(3, len(q.args)):], func(a []byte) bool { return resp.IsWord(a, word) })
	}
	switch q.name {
	case "set":
		if has("get") {
			return !has("nx") && !has("xx") || has("nx") == h.IsNull()
		}
		return !h.IsNull()
	case "getex":
		return !h.IsNull()
	case "expire", "pexpire", "expireat", "pexpireat", "hsetex", "msetex":
		return string(reply) == ":1\r\n"
	case "hgetex", "hexpire", "hpexpire", "hexpireat", "hpexpireat":
		all := elements(body, 1)
		if i >= len(all) {
			return false
		}
		h, _ := head(all[i])
		return q.name == "hgetex" && !h.IsNull() || string(all[i]) == ":1\r\n"
	}
	return true
}

// moved takes a deadline along with its key.
func (r *reader) moved(q request, reply []byte, at time.Time) {
	if q.name != "rename" && q.name != "renamenx" && q.name != "copy" || len(q.args) < 3 || string(reply) == ":0\r\n" || reply[0] == resp.Error {
		return
	}
	d, ok := r.p.deadlines.get(subject{db: r.db, key: string(q.args[1])})
	if !ok || len(q.args) > 4 {
		return
	}
	d.key, d.made = string(q.args[2]), at
	r.p.deadlines.set(d)
}

// mostDue are ended in one piece.
const mostDue = 128

// Due returns what ends the keys that production has ended by now.
func (p *Protocol) Due(now time.Time) (ops []*shadow.Operation) {
	over, several := p.deadlines.past(now, mostDue)
	for _, s := range over {
		op := s.end()
		if several {
			op.Request = append(resp.AppendCommand(nil, "SELECT", s.db), op.Request...)
			op.Replies = 2
		}
		ops = append(ops, op)
	}
	return ops
}

// end is what ends a subject, on a connection that has its database.
func (s subject) end() *shadow.Operation {
	op := &shadow.Operation{
		Kind: shadow.Write, Untimed: true, Name: "PEXPIRE " + pattern([]byte(s.key)), Keys: []string{nameOf(s.db, []byte(s.key))},
		Request:    resp.AppendCommand(nil, "PEXPIRE", s.key, "0", "XX"),
		Production: shadow.Answer{Lost: true},
	}
	if s.ofHash {
		op.Request = resp.AppendCommand(nil, "HPEXPIRE", s.key, "0", "XX", "FIELDS", "1", s.field)
	}
	return op
}

// ended returns what ends keys before an operation that production has surely carried out behind their ends, or whose answer shows that.
func (r *reader) ended(op *shadow.Operation, q request, reply []byte, at time.Time) (ends []*shadow.Operation) {
	for _, name := range op.Keys {
		db, key := keyOf(name)
		s := subject{db: db, key: key}
		d, ok := r.p.deadlines.get(s)
		if !ok || db != r.db {
			continue
		}
		surely := q.at.After(d.to.Add(tick - slack))
		if surely || len(op.Keys) == 1 && !at.Before(d.from) && foundNothing(q, reply) {
			r.p.deadlines.drop(s)
			ends = append(ends, s.end())
		}
	}
	return ends
}

// foundNothing reports whether a reply is one that shows that there was no key. It is asked about keys that are about to end.
func foundNothing(q request, reply []byte) bool {
	h, _ := head(reply)
	number := func(n int64) bool { got, ok := integerOf(reply); return ok && got == n }
	switch q.name {
	case "get", "getex", "getdel", "getset", "lpop", "rpop":
		return h.IsNull()
	case "hgetall", "smembers", "hkeys", "hvals":
		return h.IsAggregate() && h.N == 0
	case "hlen", "llen", "scard", "zcard", "xlen", "strlen", "exists", "del", "unlink", "touch", "persist":
		return number(0)
	case "expire", "pexpire", "expireat", "pexpireat":
		return len(q.args) == 3 && number(0)
	case "ttl", "pttl":
		return number(-2)
	case "set":
		return len(q.args) > 3 && slices.ContainsFunc(q.args[3:], func(a []byte) bool { return resp.IsWord(a, "nx") }) && !h.IsNull()
	case "setnx", "incr":
		return number(1)
	case "decr":
		return number(-1)
	case "incrby":
		return len(q.args) == 3 && string(reply[1:len(reply)-2]) == string(q.args[2])
	case "append":
		return len(q.args) == 3 && number(int64(len(q.args[2])))
	case "lpush", "rpush":
		return number(int64(len(q.args) - 2))
	}
	return false
}
