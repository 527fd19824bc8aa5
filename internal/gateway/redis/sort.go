package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"

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
	if o.Broken || !storesValues(&o) && o.By == nil {
		return s.talk.forward(r, sortEntry(&o))
	}
	if excluded(s.vault.rules(), append([][]byte{o.By}, r.args[1])) {
		return s.talk.forward(r, sortEntry(&o))
	}
	switch {
	case s.user.lua.denied, s.talk.tx.open && !s.user.mayEval(), len(r.args) > lua.MaxArgs/2:
		return s.withoutScript(r, &o)
	case s.talk.tx.open:
		return s.inTransaction(r, &o)
	}
	return s.guarded(r, &o)
}

// storesValues reports that values which GET has fetched go into a list.
func storesValues(o *compute.Sort) bool { return o.Store != nil && o.Fetches() }

// sortEntry is of the reply to SORT where nothing is in its way.
func sortEntry(o *compute.Sort) entry {
	if !o.Fetches() || o.Store != nil {
		return entry{}
	}
	return entry{shape: shapeSorted, op: &op{mask: o.Gets}}
}

// scriptEntry is of the reply to the script, which is done when done is closed; nil: nothing waits for it.
func scriptEntry(o *compute.Sort, known []lua.Known, done chan struct{}) entry {
	e := sortEntry(o)
	e.kind = kindAsk
	if e.op == nil {
		e.op = &op{}
	}
	e.op.done = done
	for _, kv := range known {
		if cinch.IsSealed(kv.Value) { // a weight that GET fetches while it is put back
			e.op.plainBytes = append(e.op.plainBytes, kv.Value)
		}
	}
	return e
}

func (s *sorter) call(r *request, o *compute.Sort, script string, known []lua.Known) [][]byte {
	store := o.Store
	if !storesValues(o) {
		store = nil
	}
	return lua.CallSort(script, s.keys(r.args[1], o.Store), o.By, store, o.Gets, known, o.Look, r.args)
}

// inTransaction queues the script with what it may meet: what is sealed now, and what the transaction
// has sealed before.
func (s *sorter) inTransaction(r *request, o *compute.Sort) error {
	sealed, err := s.look(r, o)
	if err != nil && !goredis.HasErrorPrefix(err, "WRONGTYPE") { // the transaction may replace the key
		return s.cannotLook(r, o, err)
	}
	known, err := s.prober.stash.openAll(sealed)
	if err != nil {
		return s.prober.broken(err)
	}
	known = append(known, s.talk.tx.known...)
	if len(known) > 0 {
		s.vault.Stats.Inflated("sort")
	}
	if err := s.talk.expect(scriptEntry(o, known, nil)); err != nil {
		return err
	}
	return s.talk.send(s.call(r, o, lua.Sort, known))
}

// withoutScript is for users who may not run EVAL: the server sorts as long as nothing is sealed that
// it would compare or store.
func (s *sorter) withoutScript(r *request, o *compute.Sort) error {
	sealed, err := s.look(r, o)
	switch {
	case err != nil:
		return s.cannotLook(r, o, err)
	case len(sealed) == 0 && len(s.talk.tx.known) == 0:
		return s.talk.forward(r, sortEntry(o))
	}
	return s.prober.over("ERR cinch: SORT would compare or store sealed values, and opening them takes the right to run EVAL; exclude the keys of its patterns")
}

// cannotLook goes on where the values can't be looked at: where the server refuses that, it refuses the request too.
func (s *sorter) cannotLook(r *request, o *compute.Sort, err error) error {
	var answer goredis.Error
	if errors.As(err, &answer) {
		return s.talk.forward(r, sortEntry(o))
	}
	return s.talk.refuse("ERR cinch: can't look at the keys: " + err.Error())
}

// sortChunk limits how many elements of the sorted key are looked at in one step, and maxSortRounds how many
// steps, or batches of unknown envelopes, a SORT may take.
const (
	sortChunk     = 1000
	maxSortRounds = 100
)

var errLongSort = errors.New("SORT of more than 100000 elements")

// look returns the sealed weights, and the sealed values that would be stored. The server finds them, on
// the second connection, with the client's rights.
func (s *sorter) look(r *request, o *compute.Sort) (sealed [][]byte, err error) {
	if !s.prober.second.talk.settle() {
		return nil, errGone
	}
	q, end := s.prober.begin()
	defer end()
	args := []any{r.args[0], r.args[1], "BY", "nosort", "GET", "#"}
	if o.By != nil {
		args = append(args, "GET", o.By)
	}
	if o.Store != nil {
		for _, pattern := range o.Fetched {
			args = append(args, "GET", pattern)
		}
	}
	each := (len(args) - 4) / 2 // of an element
	for n := range maxSortRounds {
		reply, err := q.second.ask(q.ctx, q.client, append(args[:len(args):len(args)], "LIMIT", n*sortChunk, sortChunk)...)
		if err != nil {
			return nil, err
		}
		values := asStrings(reply)
		for i, v := range values {
			if i%each > 0 && strings.HasPrefix(v, cinch.Magic) {
				sealed = append(sealed, []byte(v))
			}
		}
		if len(values) < each*sortChunk {
			return sealed, nil
		}
	}
	return nil, errLongSort
}

func (s *sorter) guarded(r *request, o *compute.Sort) error {
	var k []lua.Known
	script := lua.Sort
	if s.talk.tx.watch.on {
		script = lua.SortWatched
	}
	for range maxSortRounds {
		e := scriptEntry(o, k, make(chan struct{}))
		if err := s.talk.ask(e, s.call(r, o, script, k)); err != nil || e.op.given {
			return err
		}
		if e.op.answer.isError() {
			s.user.lua.denied = s.user.lua.denied || isNoLua(e.op.answer.text)
			return s.withoutScript(r, o)
		}
		more, err := s.prober.stash.openAll(e.op.answer.handedOut())
		s.talk.letGo(e.op)
		if err != nil {
			return s.prober.broken(err)
		}
		k = append(k, more...)
		s.vault.Stats.Inflated("sort")
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
