package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// sorter handles SORT.
type sorter struct {
	upstream  *upstreamWriter
	user      *user
	codec     *valueCodec
	prober    *keyProber
	inCluster bool
}

// SORT uses keys that it builds from patterns: BY weights, which the server compares, and GET values, which
// it returns or, with STORE, writes into a list.

func (s *sorter) sort(r *request) error {
	o := compute.ParseSort(r.args)
	if o.Broken || !storesValues(&o) && o.By == nil {
		return s.upstream.forward(r, sortEntry(&o))
	}
	if excluded(s.codec.rules(), append([][]byte{o.By}, r.args[1])) {
		return s.upstream.forward(r, sortEntry(&o))
	}
	switch {
	case s.user.lua.denied, s.upstream.tx.open && !s.user.mayEval(), len(r.args) > lua.MaxArgs/2:
		return s.withoutScript(r, &o)
	case s.upstream.tx.open:
		return s.inTransaction(r, &o)
	}
	return s.guarded(r, &o)
}

// storesValues reports whether values that GET fetched are stored in a list.
func storesValues(o *compute.Sort) bool { return o.Store != nil && o.Fetches() }

// sortEntry returns the entry for the reply to an unchanged SORT.
func sortEntry(o *compute.Sort) entry {
	if !o.Fetches() || o.Store != nil {
		return entry{}
	}
	return entry{shape: shapeSorted, data: &entryData{mask: o.Gets}}
}

// scriptEntry returns the entry for the reply to the script. done is closed when the reply has arrived; nil: nothing
// waits for it.
func scriptEntry(o *compute.Sort, known []lua.Known, done chan struct{}) entry {
	e := sortEntry(o)
	e.kind = kindAsk
	if e.data == nil {
		e.data = &entryData{}
	}
	e.data.done = done
	for _, kv := range known {
		if envelope.IsSealed(kv.Value) { // a decompressed weight that GET may fetch
			e.data.plainBytes = append(e.data.plainBytes, kv.Value)
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

// inTransaction queues the script with the envelopes that it may meet: those stored now, and those that the
// transaction has set before.
func (s *sorter) inTransaction(r *request, o *compute.Sort) error {
	sealed, err := s.readSealed(r, o)
	if err != nil && !goredis.HasErrorPrefix(err, "WRONGTYPE") { // the transaction may replace the key
		return s.handleReadError(r, o, err)
	}
	known, err := s.prober.decoded.openAll(sealed)
	if err != nil {
		return s.prober.refuseCorrupt(err)
	}
	known = append(known, s.upstream.tx.known...)
	if len(known) > 0 {
		s.codec.Stats.Inflated("sort")
	}
	if err := s.upstream.expect(scriptEntry(o, known, nil)); err != nil {
		return err
	}
	return s.upstream.send(s.call(r, o, lua.Sort, known))
}

// withoutScript handles SORT for users who may not run EVAL: the server sorts if nothing that it would compare or
// store is compressed.
func (s *sorter) withoutScript(r *request, o *compute.Sort) error {
	sealed, err := s.readSealed(r, o)
	switch {
	case err != nil:
		return s.handleReadError(r, o, err)
	case len(sealed) == 0 && len(s.upstream.tx.known) == 0:
		return s.upstream.forward(r, sortEntry(o))
	}
	return s.prober.refuse("ERR cinch: SORT would compare or store compressed values, and decompressing them needs the right to run EVAL; exclude the keys of its patterns")
}

// handleReadError handles values that can't be read: if the server refused the read, it refuses the request too.
func (s *sorter) handleReadError(r *request, o *compute.Sort, err error) error {
	var answer goredis.Error
	if errors.As(err, &answer) {
		return s.upstream.forward(r, sortEntry(o))
	}
	if errors.Is(err, errLongSort) {
		return s.upstream.refuse("ERR cinch: SORT over more than 100000 elements is not supported while weights or stored values may be compressed")
	}
	return s.upstream.refuse("ERR cinch: can't read the keys: " + err.Error())
}

// sortChunk limits the elements of the sorted key that are examined in one step, and maxSortRounds the steps,
// or batches of new envelopes, of one SORT.
const (
	sortChunk     = 1000
	maxSortRounds = 100
)

var errLongSort = errors.New("SORT over too many elements")

// readSealed returns the compressed weights, and the compressed values that would be stored. It asks the server for
// them on the second connection, with the client's rights.
func (s *sorter) readSealed(r *request, o *compute.Sort) (sealed [][]byte, err error) {
	if !s.prober.sideConn.upstream.awaitReplies() {
		return nil, errSessionEnded
	}
	q, end := s.prober.newProbe()
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
	each := (len(args) - 4) / 2 // values per element
	for n := range maxSortRounds {
		reply, err := q.sideConn.ask(q.ctx, q.client, append(args[:len(args):len(args)], "LIMIT", n*sortChunk, sortChunk)...)
		if err != nil {
			return nil, err
		}
		values := asStrings(reply)
		for i, v := range values {
			if i%each > 0 && strings.HasPrefix(v, envelope.Magic) {
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
	if s.upstream.tx.watch.on {
		script = lua.SortWatched
	}
	for range maxSortRounds {
		e := scriptEntry(o, k, make(chan struct{}))
		if err := s.upstream.ask(e, s.call(r, o, script, k)); err != nil || e.data.delivered {
			return err
		}
		if e.data.answer.isError() {
			s.user.lua.denied = s.user.lua.denied || isNoLua(e.data.answer.text)
			return s.withoutScript(r, o)
		}
		more, err := s.prober.decoded.openAll(e.data.answer.envelopes())
		s.upstream.release(e.data)
		if err != nil {
			return s.prober.refuseCorrupt(err)
		}
		k = append(k, more...)
		s.codec.Stats.Inflated("sort")
	}
	return s.upstream.refuse("ERR cinch: SORT over more compressed values than can be decompressed at once")
}

// keys returns the keys that the script names. A cluster node must see the stored list's key, which may be in
// another slot; elsewhere naming it would require more rights than SORT does.
func (s *sorter) keys(key, store []byte) [][]byte {
	if store == nil || !s.inCluster {
		return [][]byte{key}
	}
	return [][]byte{key, store}
}
