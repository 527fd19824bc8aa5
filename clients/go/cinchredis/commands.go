package cinchredis

import (
	"encoding"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/policy"
)

// A place holds the indexes of a value, its key and its field among a command's arguments; field is 0 if
// there is none.
type place struct {
	at, key, field int
	kind           policy.Type
}

// writes maps commands that write values, in lower case, to functions that find the values.
var writes = map[string]func(to []place, args []any) []place{
	"set": stringAt(2), "setnx": stringAt(2), "getset": stringAt(2), "setex": stringAt(3), "psetex": stringAt(3),
	"mset": pairs, "msetnx": pairs, "msetex": countedPairs,
	"hset": fields, "hmset": fields, "hsetnx": fields, "hsetex": fieldsAfter,
	"xadd": entry,
}

func stringAt(at int) func(to []place, args []any) []place {
	return func(to []place, args []any) []place {
		if at < len(args) {
			to = append(to, place{at: at, key: 1, kind: policy.String})
		}
		return to
	}
}

func pairs(to []place, args []any) []place { return stringsFrom(to, 1, len(args)) }

// countedPairs finds the values of MSETEX numkeys key value ...
func countedPairs(to []place, args []any) []place {
	if len(args) < 2 {
		return to
	}
	n, err := strconv.Atoi(word(args[1]))
	if err != nil || n < 0 || n > len(args) {
		return to
	}
	return stringsFrom(to, 2, min(2+2*n, len(args)))
}

func stringsFrom(to []place, from, end int) []place {
	for i := from; i+1 < end; i += 2 {
		to = append(to, place{at: i + 1, key: i, kind: policy.String})
	}
	return to
}

func fields(to []place, args []any) []place { return fieldsFrom(to, args, 2, policy.Hash) }

// fieldsAfter finds the values of HSETEX key [options] FIELDS n field value ...
func fieldsAfter(to []place, args []any) []place {
	for at := 2; at < len(args); at++ {
		if strings.EqualFold(word(args[at]), "FIELDS") {
			return fieldsFrom(to, args, at+2, policy.Hash)
		}
	}
	return to
}

func fieldsFrom(to []place, args []any, from int, kind policy.Type) []place {
	for i := from; i+1 < len(args); i += 2 {
		to = append(to, place{at: i + 1, key: 1, field: i, kind: kind})
	}
	return to
}

// entryOptions maps options before an entry's ID to the number of arguments that each takes, itself included.
var entryOptions = map[string]int{"NOMKSTREAM": 1, "KEEPREF": 1, "DELREF": 1, "ACKED": 1, "IDMPAUTO": 2, "LIMIT": 2, "IDMP": 3, "MAXLEN": 2, "MINID": 2}

// entry finds the values of XADD key [options] [MAXLEN|MINID [=|~] n [LIMIT n]] id field value ...
func entry(to []place, args []any) []place {
	at := 2
	for at < len(args) {
		option := strings.ToUpper(word(args[at]))
		n := entryOptions[option]
		if n == 0 {
			break
		}
		if (option == "MAXLEN" || option == "MINID") && at+1 < len(args) {
			if how := word(args[at+1]); how == "=" || how == "~" {
				n++
			}
		}
		at += n
	}
	return fieldsFrom(to, args, at+1, policy.Stream)
}

// A computation is a command that reads or changes the bytes of values in the server. Its keys are the
// arguments from first to before end (0: all).
type computation struct {
	kind       policy.Type
	first, end int
}

var computations = map[string]computation{
	"append": {policy.String, 1, 2}, "setrange": {policy.String, 1, 2}, "getrange": {policy.String, 1, 2}, "substr": {policy.String, 1, 2},
	"strlen": {policy.String, 1, 2}, "setbit": {policy.String, 1, 2}, "getbit": {policy.String, 1, 2}, "bitcount": {policy.String, 1, 2},
	"bitpos": {policy.String, 1, 2}, "bitfield": {policy.String, 1, 2}, "bitfield_ro": {policy.String, 1, 2},
	"digest": {policy.String, 1, 2}, "delex": {policy.String, 1, 2},
	"lcs": {policy.String, 1, 3}, "bitop": {policy.String, 2, 0}, "hstrlen": {policy.Hash, 1, 2},
}

// computesOn reports whether a command would compute on a value that may be sealed, and returns the value's key, "" for
// SORT, which may read several.
func computesOn(p *policy.Policy, space string, cmd redis.Cmder) (key string, does bool) {
	name, args := cmd.Name(), cmd.Args()
	switch name {
	case "set":
		if len(args) > 3 && compares(args[3:]) {
			return firstSealed(p, space, computation{policy.String, 1, 2}, args)
		}
	case "sort", "sort_ro":
		return "", looksElsewhere(args) && sealsAny(p, space)
	}
	if c, ok := computations[name]; ok {
		return firstSealed(p, space, c, args)
	}
	return "", false
}

func firstSealed(p *policy.Policy, space string, c computation, args []any) (key string, found bool) {
	end := len(args)
	if c.end > 0 {
		end = min(c.end, end)
	}
	for _, arg := range args[min(c.first, end):end] {
		var field []byte
		if c.kind == policy.Hash && end < len(args) {
			field = []byte(word(args[end]))
		}
		if key := word(arg); maySeal(p, space, key, field, c.kind) {
			return key, true
		}
	}
	return "", false
}

// maySeal reports whether a value may be stored sealed, now or from a time when the policy was not off.
func maySeal(p *policy.Policy, space, key string, field []byte, kind policy.Type) bool {
	for _, r := range p.Covering(nil, kind, [][]byte{[]byte(key)}, [][]byte{field}) {
		if r.Compresses() && (r.Space == "" || r.Space == space) {
			return true
		}
	}
	return false
}

func sealsAny(p *policy.Policy, space string) bool {
	for _, r := range p.Rules() {
		if r.Compresses() && r.Types&(policy.String|policy.Hash) != 0 && (r.Space == "" || r.Space == space) {
			return true
		}
	}
	return false
}

// compares reports whether SET has an option such as IFEQ, for which the server compares stored values.
func compares(options []any) bool {
	for _, o := range options {
		switch strings.ToUpper(word(o)) {
		case "IFEQ", "IFNE", "IFDEQ", "IFDNE":
			return true
		}
	}
	return false
}

// looksElsewhere reports whether SORT reads values of other keys, named by patterns in BY or GET.
func looksElsewhere(args []any) bool {
	for i := 2; i+1 < len(args); i++ {
		switch strings.ToUpper(word(args[i])) {
		case "BY", "GET":
			if strings.Contains(word(args[i+1]), "*") {
				return true
			}
		}
	}
	return false
}

// word returns a key, a field or an option as text, "" for an argument of another type.
func word(arg any) string {
	switch v := arg.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v)
	}
	b, _ := payload(arg)
	return string(b)
}

// payload returns the bytes of an argument that may be sealed. Numbers and times are never sealed. The result
// may alias the argument.
func payload(arg any) (value []byte, ok bool) {
	switch v := arg.(type) {
	case string:
		return bytesOf(v), true
	case []byte:
		return v, true
	case *string:
		if v == nil {
			return nil, false
		}
		return bytesOf(*v), true
	case net.IP:
		return v, true
	case isTime:
		return nil, false
	case encoding.BinaryMarshaler:
		b, err := v.MarshalBinary()
		return b, err == nil // go-redis will meet the error again and report it
	}
	return nil, false
}

// isTime matches time.Time, for which go-redis does not use MarshalBinary.
type isTime interface{ UnixNano() int64 }
