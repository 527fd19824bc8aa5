package redis

import (
	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// SORT reaches for keys that it builds from patterns: BY weights, which the server
// compares, and GET values, which it returns or, with STORE, writes into a list.

func (s *session) handleSort(r *request) error {
	o := compute.ParseSort(r.args)
	stored := o.Store != nil && o.Fetches()
	if o.Broken || !stored && o.By == nil {
		return s.forward(r, sortEntry(&o))
	}
	if s.excluded(append([][]byte{o.By}, r.args[1])) {
		return s.forward(r, sortEntry(&o))
	}
	if s.tx.open || s.lua.denied {
		return s.sortPlainly(r, &o)
	}
	return s.sortGuarded(r, &o, stored)
}

// sortEntry is of the reply to SORT where nothing is in its way.
func sortEntry(o *compute.Sort) entry {
	if !o.Fetches() || o.Store != nil {
		return entry{}
	}
	return entry{shape: shapeSorted, op: &op{mask: o.Gets}}
}

// sortPlainly is for where the script can't be used: the weights would be compared sealed.
func (s *session) sortPlainly(r *request, o *compute.Sort) error {
	p := s.rules()
	if p == nil || p.Excluded(o.By) {
		return s.forward(r, sortEntry(o))
	}
	return s.refuse("ERR cinch: SORT with BY, or with GET and STORE, inside MULTI or without the right to run EVAL may meet sealed values; exclude the keys of its patterns")
}

// maxSortRounds bounds how many batches of unknown envelopes one SORT may ask for.
const maxSortRounds = 100

func (s *session) sortGuarded(r *request, o *compute.Sort, stored bool) error {
	store, cmd := o.Store, o.Rest
	if !stored {
		store, cmd = nil, r.args
	}
	var k []lua.Known
	script := lua.Sort
	if s.watched {
		script = lua.SortWatched
	}
	for range maxSortRounds {
		e := sortEntry(o)
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
		if err := s.ask(e, lua.CallSort(script, s.sortKeys(r.args[1], o.Store), o.By, store, o.Gets, k, cmd)); err != nil || e.op.given {
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
	if store == nil || !s.g.inCluster() {
		return [][]byte{key}
	}
	return [][]byte{key, store}
}
