package redis

import (
	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// sorter handles SORT.
type sorter struct {
	talk      *conversation
	user      *user
	vault     *vault
	prober    *prober
	inCluster bool
}

// SORT reaches for keys that it builds from patterns: BY weights, which the server
// compares, and GET values, which it returns or, with STORE, writes into a list.

func (s *sorter) sort(r *request) error {
	o := compute.ParseSort(r.args)
	stored := o.Store != nil && o.Fetches()
	if o.Broken || !stored && o.By == nil {
		return s.talk.forward(r, sortEntry(&o))
	}
	if s.vault.excluded(append([][]byte{o.By}, r.args[1])) {
		return s.talk.forward(r, sortEntry(&o))
	}
	if s.talk.tx.open || s.user.lua.denied {
		return s.plainly(r, &o)
	}
	return s.guarded(r, &o, stored)
}

// sortEntry is of the reply to SORT where nothing is in its way.
func sortEntry(o *compute.Sort) entry {
	if !o.Fetches() || o.Store != nil {
		return entry{}
	}
	return entry{shape: shapeSorted, op: &op{mask: o.Gets}}
}

// plainly is for where the script can't be used: the weights would be compared sealed.
func (s *sorter) plainly(r *request, o *compute.Sort) error {
	p := s.vault.rules()
	if p == nil || p.Excluded(o.By) {
		return s.talk.forward(r, sortEntry(o))
	}
	return s.talk.refuse("ERR cinch: SORT with BY, or with GET and STORE, inside MULTI or without the right to run EVAL may meet sealed values; exclude the keys of its patterns")
}

// maxSortRounds bounds how many batches of unknown envelopes one SORT may ask for.
const maxSortRounds = 100

func (s *sorter) guarded(r *request, o *compute.Sort, stored bool) error {
	store, cmd := o.Store, o.Rest
	if !stored {
		store, cmd = nil, r.args
	}
	var k []lua.Known
	script := lua.Sort
	if s.talk.tx.watch.on {
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
		if err := s.talk.ask(e, lua.CallSort(script, s.keys(r.args[1], o.Store), o.By, store, o.Gets, k, cmd)); err != nil || e.op.given {
			return err
		}
		if e.op.answer.isError() {
			s.user.lua.denied = s.user.lua.denied || isNoLua(e.op.answer.text)
			return s.plainly(r, o)
		}
		more, err := s.prober.stash.openAll(e.op.answer.handedOut())
		s.talk.letGo(e.op)
		if err != nil {
			return s.prober.broken(err)
		}
		k = append(k, more...)
		s.vault.stats.Inflated("sort")
	}
	return s.talk.refuse("ERR cinch: SORT over more sealed values than can be opened at once")
}

// keys are the keys that the script names. A node of a cluster has to see that the list which is
// stored is of another slot; elsewhere to name it would ask for more rights than SORT does.
func (s *sorter) keys(key, store []byte) [][]byte {
	if store == nil || !s.inCluster {
		return [][]byte{key}
	}
	return [][]byte{key, store}
}
