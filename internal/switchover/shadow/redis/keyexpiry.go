package redis

import (
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// A key expires by its server's clock, so two targets expire it at different places among the operations: one
// continues a counter where the other starts a new one, and they stay different. So the mirror expires keys.
// A command that sets a time to live sets one that is ten years longer at the targets. When production's time
// is up, the mirror sends an operation that expires the key, at one place in the order.
//
//	client     SET k v PX 500                                   SET k w NX
//	targets    SET k v PX 315360000500       PEXPIRE k 0 XX     SET k w NX
//
// XX leaves alone keys that have no time to live any more. Between the earliest and the latest possible end,
// production's answers decide: the first one that shows that the key is missing marks the moment. Scripts set
// times to live on their own: after a script, the mirror sets those of its keys to ten years, and records
// the times that the targets had.
//
// This needs servers from 7.0 on, for XX. Times to live above longestRun are sent unchanged.
const (
	tenYears   = 10 * 365 * 24 * time.Hour
	longestRun = 30 * 24 * time.Hour
)

// slack delays a deadline, since operations sent before it may be answered after it.
const slack = 200 * time.Millisecond

// clockPrecision is the precision of servers' clocks.
const clockPrecision = 2 * time.Millisecond

// ttlArg is the position and unit of a time to live in a request.
type ttlArg struct {
	at       int // argument
	unit     time.Duration
	absolute bool
}

// ttlArgs holds the commands that have a time to live at a fixed argument.
var ttlArgs = map[string]ttlArg{
	"setex": {2, time.Second, false}, "psetex": {2, time.Millisecond, false}, "restore": {2, time.Millisecond, false},
	"expire": {2, time.Second, false}, "pexpire": {2, time.Millisecond, false}, "expireat": {2, time.Second, true}, "pexpireat": {2, time.Millisecond, true},
	"hexpire": {2, time.Second, false}, "hpexpire": {2, time.Millisecond, false}, "hexpireat": {2, time.Second, true}, "hpexpireat": {2, time.Millisecond, true},
}

// ttlOptions holds the commands that have a time to live after an option, with the first argument that may be
// such an option.
var ttlOptions = map[string]int{"set": 3, "getex": 2, "hgetex": 2, "hsetex": 2}

// findTTLArg returns the position and unit of the time to live in a request.
func findTTLArg(name string, args [][]byte) (t ttlArg, ok bool) {
	if t, ok = ttlArgs[name]; ok {
		if name == "restore" && slices.ContainsFunc(args[min(4, len(args)):], func(a []byte) bool { return resp.IsWord(a, "absttl") }) {
			t.absolute = true
		}
		return t, t.at < len(args)
	}
	from, ok := ttlOptions[name]
	if name == "msetex" && len(args) > 1 {
		n, _ := resp.ParseCount(args[1])
		from, ok = 2+2*min(n, len(args)), true
	}
	for i := from; ok && i+1 < len(args) && !resp.IsWord(args[i], "fields"); i++ {
		switch {
		case resp.IsWord(args[i], "ex"):
			return ttlArg{i + 1, time.Second, false}, true
		case resp.IsWord(args[i], "px"):
			return ttlArg{i + 1, time.Millisecond, false}, true
		case resp.IsWord(args[i], "exat"):
			return ttlArg{i + 1, time.Second, true}, true
		case resp.IsWord(args[i], "pxat"):
			return ttlArg{i + 1, time.Millisecond, true}, true
		}
	}
	return ttlArg{}, false
}

// extendTTL adds ten years to the time to live that a request sets at the targets, and records its end in
// production.
func (r *reader) extendTTL(op *shadow.Operation, q request, reply []byte, at time.Time) {
	if !r.p.managesExpiry {
		return
	}
	r.copyDeadline(q, reply, at)
	t, ok := findTTLArg(q.name, q.args)
	if !ok || reply[0] == resp.Error || reply[0] == resp.BulkError {
		return
	}
	n, ok := resp.ParseInt(q.args[t.at])
	if !ok || n <= 0 || n > int64(longestRun/t.unit) && !t.absolute {
		return // it ends now, or after the run
	}
	from, to := q.at, at
	if t.absolute {
		from, to = time.Unix(0, 0), time.Unix(0, 0)
		if n > (at.UnixNano()+int64(longestRun))/int64(t.unit) || n <= at.UnixNano()/int64(t.unit) {
			return
		}
	}
	left := time.Duration(n) * t.unit
	all := r.subjects(q)
	for _, s := range all {
		if !r.p.deadlines.fits(s, to.Add(left).Sub(at)) {
			return // either all subjects of a command are extended, or none
		}
	}
	sent := slices.Clone(q.args)
	sent[t.at] = strconv.AppendInt(nil, n+int64(tenYears/t.unit), 10)
	op.Request = resp.AppendArgs(nil, sent)
	for i, s := range all {
		if hasNewTTL(q, reply, i) {
			r.p.deadlines.set(deadline{subject: s, from: from.Add(left), to: to.Add(left + slack), answeredAt: at})
		}
	}
}

// subjects returns the subjects of a request that has a ttlArg.
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

// fieldsOf returns the fields after FIELDS, for commands that have them.
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

// hasNewTTL reports whether the i-th subject of a successful request has its new time to live.
func hasNewTTL(q request, reply []byte, i int) bool {
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

// copyDeadline copies a key's deadline to the key's new name.
func (r *reader) copyDeadline(q request, reply []byte, at time.Time) {
	if q.name != "rename" && q.name != "renamenx" && q.name != "copy" || len(q.args) < 3 || string(reply) == ":0\r\n" || reply[0] == resp.Error {
		return
	}
	d, ok := r.p.deadlines.get(subject{db: r.db, key: string(q.args[1])})
	if !ok || len(q.args) > 4 {
		return
	}
	d.key, d.answeredAt = string(q.args[2]), at
	r.p.deadlines.set(d)
}

// maxDue limits the subjects that one call of Due expires.
const maxDue = 128

// Due returns operations that expire the keys whose time is up in production.
func (p *Protocol) Due(now time.Time) (ops []*shadow.Operation) {
	over, several := p.deadlines.popExpired(now, maxDue)
	for _, s := range over {
		op := s.expireOperation()
		if several {
			op.Request = append(resp.AppendCommand(nil, "SELECT", s.db), op.Request...)
			op.Replies = 2
		}
		ops = append(ops, op)
	}
	return ops
}

// expireOperation returns the operation that expires a subject, on a connection that has its database
// selected.
func (s subject) expireOperation() *shadow.Operation {
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

// expireBefore returns operations that expire keys before op: those that had certainly expired in production when it
// executed op, and those that its answer shows as missing.
func (r *reader) expireBefore(op *shadow.Operation, q request, reply []byte, at time.Time) (ends []*shadow.Operation) {
	for _, name := range op.Keys {
		db, key := keyOf(name)
		s := subject{db: db, key: key}
		d, ok := r.p.deadlines.get(s)
		if !ok || db != r.db {
			continue
		}
		surely := q.at.After(d.to.Add(clockPrecision - slack))
		if surely || len(op.Keys) == 1 && !at.Before(d.from) && showsNoKey(q, reply) {
			r.p.deadlines.drop(s)
			ends = append(ends, s.expireOperation())
		}
	}
	return ends
}

// showsNoKey reports whether a reply shows that there was no key. It is called for keys that are about to
// expire.
func showsNoKey(q request, reply []byte) bool {
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
