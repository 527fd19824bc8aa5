package redis

import (
	"bytes"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// SORT reaches for keys that it builds from patterns: BY weights, which the server
// compares, and GET values, which it returns or, with STORE, writes into a list.

// sorting is what matters of a SORT request.
type sorting struct {
	by, store []byte
	gets      []bool // of each GET: it fetches a value (not "#")
	rest      [][]byte
	broken    bool // the server will refuse it
}

func parseSort(args [][]byte) (o sorting) {
	o.rest = append(o.rest, args[0], args[1])
	readOnly := isWord(args[0], "sort_ro")
	for i := 2; i < len(args); i++ {
		n := 0
		switch {
		case isWord(args[i], "asc"), isWord(args[i], "desc"), isWord(args[i], "alpha"):
		case isWord(args[i], "limit"):
			n = 2
		case isWord(args[i], "by"), isWord(args[i], "get"), isWord(args[i], "store") && !readOnly:
			n = 1
		default:
			o.broken = true
		}
		if o.broken = o.broken || i+n >= len(args); o.broken {
			return o
		}
		if isWord(args[i], "store") {
			o.store = args[i+1]
		} else {
			o.note(args[i : i+1+n])
		}
		i += n
	}
	return o
}

// note takes one option and its arguments.
func (o *sorting) note(opt [][]byte) {
	o.rest = append(o.rest, opt...)
	switch {
	case isWord(opt[0], "by"):
		o.by = nil
		if bytes.IndexByte(opt[1], '*') >= 0 {
			o.by = opt[1]
		}
	case isWord(opt[0], "get"):
		o.gets = append(o.gets, len(opt[1]) != 1 || opt[1][0] != '#')
	}
}

func (o *sorting) fetches() bool {
	for _, g := range o.gets {
		if g {
			return true
		}
	}
	return false
}

func (s *session) handleSort(r *request) error {
	o := parseSort(r.args)
	stored := o.store != nil && o.fetches()
	if o.broken || !stored && o.by == nil {
		return s.forward(r, o.entry())
	}
	if s.excluded(append([][]byte{o.by}, r.args[1])) {
		return s.forward(r, o.entry())
	}
	if s.tx.open || s.lua.denied {
		return s.sortPlainly(r, &o)
	}
	return s.sortGuarded(r, &o, stored)
}

func (o *sorting) entry() entry {
	if !o.fetches() || o.store != nil {
		return entry{}
	}
	return entry{shape: shapeSorted, op: &op{mask: o.gets}}
}

// sortPlainly is for where the script can't be used: the weights would be compared sealed.
func (s *session) sortPlainly(r *request, o *sorting) error {
	p := s.rules()
	if p == nil || p.Excluded(o.by) {
		return s.forward(r, o.entry())
	}
	return s.refuse("ERR cinch: SORT with BY, or with GET and STORE, inside MULTI or without the right to run EVAL may meet sealed values; exclude the keys of its patterns")
}

// maxSortRounds bounds how many batches of unknown envelopes one SORT may ask for.
const maxSortRounds = 100

func (s *session) sortGuarded(r *request, o *sorting, stored bool) error {
	store, cmd := o.store, o.rest
	if !stored {
		store, cmd = nil, r.args
	}
	var k []lua.Known
	script := lua.Sort
	if s.watched {
		script = lua.SortWatched
	}
	for range maxSortRounds {
		e := o.entry()
		e.kind = kindAsk
		if e.op == nil {
			e.op = &op{}
		}
		e.op.done = make(chan struct{})
		for _, kv := range k {
			if cinch.IsSealed(kv.Value) { // a weight that GET fetches while it is put back
				e.op.plainBytes = append(e.op.plainBytes, kv.Value)
			}
		}
		if err := s.ask(e, o.scriptArgs(script, s.sortKeys(r.args[1], o.store), store, k, cmd)); err != nil || e.op.given {
			return err
		}
		if e.op.answer.isError() {
			s.lua.denied = s.lua.denied || isNoLua(e.op.answer.text)
			return s.sortPlainly(r, o)
		}
		more, err := s.openAll(e.op.answer.handedOut())
		s.letGo(e.op)
		if err != nil {
			return s.refuseBroken(err)
		}
		k = append(k, more...)
		s.g.cfg.Stats.Inflated("sort")
	}
	return s.refuse("ERR cinch: SORT over more sealed values than can be opened at once")
}

// sortKeys are the keys that the script names. A node of a cluster has to see that the list which is
// stored is of another slot; elsewhere to name it would ask for more rights than SORT does.
func (s *session) sortKeys(key, store []byte) [][]byte {
	if store == nil || s.g.cfg.cluster == nil {
		return [][]byte{key}
	}
	return [][]byte{key, store}
}

func (o *sorting) scriptArgs(script string, keys [][]byte, store []byte, k []lua.Known, cmd [][]byte) [][]byte {
	return lua.CallSort(script, keys, o.by, store, o.gets, k, cmd)
}
