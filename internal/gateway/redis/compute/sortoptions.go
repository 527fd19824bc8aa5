package compute

import (
	"bytes"
	"slices"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// SORT uses keys that it builds from patterns: BY weights, which the server compares, and GET values, which
// it returns or, with STORE, writes into a list.

// Sort holds the parsed options of a SORT request.
type Sort struct {
	By, Store []byte   // nil: none; By is nil also for a pattern without an asterisk, which reads no keys
	Gets      []bool   // for each GET: whether it fetches a value (not "#")
	Fetched   [][]byte // the patterns of the GETs that fetch
	Look      [][]byte // the request without STORE; with ALPHA also without LIMIT, since STORE changes the order
	Broken    bool     // the server will refuse it

	rest, limit [][]byte // the request without STORE and LIMIT, and LIMIT
	alpha       bool
}

// ParseSort parses the options of SORT or SORT_RO.
func ParseSort(args [][]byte) (o Sort) {
	o.rest = append(o.rest, args[0], args[1])
	readOnly := resp.IsWord(args[0], "sort_ro")
	for i := 2; i < len(args); i++ {
		n := 0
		switch {
		case resp.IsWord(args[i], "asc"), resp.IsWord(args[i], "desc"), resp.IsWord(args[i], "alpha"):
		case resp.IsWord(args[i], "limit"):
			n = 2
		case resp.IsWord(args[i], "by"), resp.IsWord(args[i], "get"), resp.IsWord(args[i], "store") && !readOnly:
			n = 1
		default:
			o.Broken = true
		}
		if o.Broken = o.Broken || i+n >= len(args); o.Broken {
			return o
		}
		if resp.IsWord(args[i], "store") {
			o.Store = args[i+1]
		} else {
			o.note(args[i : i+1+n])
		}
		i += n
	}
	if o.Look = o.rest; !o.alpha {
		o.Look = append(o.Look, o.limit...)
	}
	return o
}

// note records one option with its arguments.
func (o *Sort) note(opt [][]byte) {
	if resp.IsWord(opt[0], "limit") {
		o.limit = opt // the last one applies
		return
	}
	o.rest = append(o.rest, opt...)
	switch {
	case resp.IsWord(opt[0], "alpha"):
		o.alpha = true
	case resp.IsWord(opt[0], "by"):
		o.By = nil
		if bytes.IndexByte(opt[1], '*') >= 0 {
			o.By = opt[1]
		}
	case resp.IsWord(opt[0], "get"):
		fetches := len(opt[1]) != 1 || opt[1][0] != '#'
		if o.Gets = append(o.Gets, fetches); fetches {
			o.Fetched = append(o.Fetched, opt[1])
		}
	}
}

// Fetches reports whether a GET fetches a value.
func (o *Sort) Fetches() bool {
	return slices.Contains(o.Gets, true)
}
