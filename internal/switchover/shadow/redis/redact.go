package redis

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// shape tells which arguments of a command are values. A command without a shape is not recorded if it
// touches a key whose values are redacted. The same holds if it has anything but keys, numbers and option
// names outside the values: that may be a value in a wrong place, perhaps in a command that the server
// refuses.
type shape struct {
	from, to int  // arguments; to 0: up to the last; from 0: none
	pairs    bool // keys and values alternate
	byKey    bool // its reply has a string for each key; otherwise all strings of the reply are redacted
}

// shapes by the command's name.
var shapes = map[string]shape{
	"get": {}, "getdel": {}, "getex": {}, "mget": {byKey: true}, "strlen": {},
	"set": {from: 2, to: 3}, "getset": {from: 2, to: 3}, "setnx": {from: 2, to: 3},
	"setex": {from: 3, to: 4}, "psetex": {from: 3, to: 4}, "mset": {pairs: true}, "msetnx": {pairs: true},

	"hset": {from: 2}, "hmset": {from: 2}, "hsetnx": {from: 2}, "hget": {from: 2}, "hmget": {from: 2},
	"hdel": {from: 2}, "hexists": {from: 2}, "hstrlen": {from: 2}, "hlen": {},
	"hgetall": {}, "hkeys": {}, "hvals": {},

	"lpush": {from: 2}, "rpush": {from: 2}, "lpushx": {from: 2}, "rpushx": {from: 2}, "lpop": {}, "rpop": {},
	"lrange": {}, "lindex": {}, "llen": {}, "ltrim": {}, "lset": {from: 3, to: 4}, "lrem": {from: 3, to: 4},

	"sadd": {from: 2}, "srem": {from: 2}, "sismember": {from: 2}, "smismember": {from: 2}, "scard": {}, "smembers": {},
	"spop": {}, "srandmember": {}, "sinter": {}, "sunion": {}, "sdiff": {},

	"del": {}, "unlink": {}, "exists": {}, "touch": {}, "type": {}, "watch": {}, "persist": {}, "ttl": {}, "pttl": {},
	"expire": {}, "pexpire": {}, "expireat": {}, "pexpireat": {},
}

// scripts holds the commands whose values and keys can't be located.
var scripts = map[string]bool{"eval": true, "eval_ro": true, "evalsha": true, "evalsha_ro": true, "fcall": true, "fcall_ro": true, "script": true, "function": true}

// plan decides how a request is recorded, and redacts it.
func (f *Filters) plan(q *request) plan {
	p := plan{opensTx: q.opensTx, closesTx: q.closesTx}
	name := strings.ToLower(string(q.args[0]))
	switch {
	case q.opensTx || q.closesTx:
		return p
	case q.skip:
		return f.exclude("about the server or the login")
	case name == "hello":
		q.bytes = resp.AppendArgs(nil, q.args[:min(2, len(q.args))])
		return p
	case len(f.redact) == 0:
		return p
	case scripts[name]:
		return f.exclude("scripts, with --redact")
	case f.p.commands[name] == nil:
		return f.exclude("commands that the server does not list, with --redact")
	}
	keys, known := q.keysOf(q.args)
	if !known {
		return f.exclude("commands whose keys are unknown, with --redact")
	}
	for _, k := range keys {
		p.redacted = append(p.redacted, f.matches(k))
	}
	if !slices.Contains(p.redacted, true) {
		return p
	}
	s, ok := shapes[name]
	if !ok || s.misplaced(q.args, keys) {
		return f.exclude("other commands on redacted keys")
	}
	p.byKey = s.byKey
	q.bytes = resp.AppendArgs(nil, f.arguments(s, q.args))
	return p
}

// misplaced reports whether there may be a value outside the shape.
func (s shape) misplaced(args, keys [][]byte) bool {
	for i := 1; i < len(args); i++ {
		isKey := slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, args[i]) })
		if !isKey && !s.redacts(i) && isValue(args[i]) {
			return true
		}
	}
	return false
}

// redacts reports whether argument i may be a value.
func (s shape) redacts(i int) bool {
	return s.pairs && i%2 == 0 || s.from > 0 && i >= s.from && (s.to == 0 || i < s.to)
}

// options of SET, GETEX and EXPIRE that are not values.
var options = []string{"ex", "px", "exat", "pxat", "nx", "xx", "gt", "lt", "get", "keepttl", "persist"}

// isValue reports whether an argument is neither an option nor a number.
func isValue(arg []byte) bool {
	_, number := resp.ParseInt(arg)
	return !number && !slices.ContainsFunc(options, func(o string) bool { return resp.IsWord(arg, o) })
}

// arguments returns the redacted arguments of a request.
func (f *Filters) arguments(s shape, args [][]byte) [][]byte {
	args = slices.Clone(args)
	for i := 1; i < len(args); i++ {
		if s.redacts(i) && (!s.pairs || f.matches(args[i-1])) {
			args[i] = f.key.Bytes(nil, args[i])
		}
	}
	return args
}

// reply appends a reply as it is recorded.
func (f *Filters) reply(dst []byte, p plan, frame []byte) []byte {
	switch h, body := head(frame); {
	case !slices.Contains(p.redacted, true):
		return append(dst, frame...)
	case h.Kind == resp.Error:
		code, _, _ := bytes.Cut(frame[1:len(frame)-2], []byte(" ")) // the rest may contain arguments
		return append(append(append(dst, resp.Error), code...), "\r\n"...)
	case p.byKey && h.IsAggregate():
		dst = append(dst, frame[:len(frame)-len(body)]...)
		for i, e := range elements(body, 1) {
			if i < len(p.redacted) && !p.redacted[i] {
				dst = append(dst, e...)
			} else {
				dst = f.strings(dst, e)
			}
		}
		return dst
	}
	return f.strings(dst, frame)
}

// strings appends a frame with all bulk strings redacted.
func (f *Filters) strings(dst, frame []byte) []byte {
	for len(frame) > 0 {
		h, body := head(frame)
		dst = append(dst, frame[:len(frame)-len(body)]...)
		if h.IsString() && h.N >= 0 {
			dst = append(f.key.Bytes(dst, body[:h.N]), "\r\n"...)
			body = body[h.N+2:]
		}
		frame = body
	}
	return dst
}
