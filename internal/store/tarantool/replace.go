package tarantool

import (
	"context"
	"fmt"

	"github.com/tarantool/go-iproto"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

const tupleType = policy.Tuple

// Replace puts new bytes in the place of values, each only if it still is what was read. All
// changes are made in one call; those of one tuple are made together or not at all.
func (t *TupleSpace) Replace(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	var sent [][]any
	group := make([]int, len(changes)) // which of sent a change is in
	for i := range changes {
		r := changes[i].Value.Ref.(*ref)
		if i == 0 || !sameTuple(r, changes[i-1].Value.Ref.(*ref)) {
			sent = append(sent, []any{r.key, [][]any{}, nil})
		}
		group[i] = len(sent) - 1
		one := sent[group[i]]
		one[1] = append(one[1].([][]any), t.fieldChange(r, &changes[i]))
		if !t.typed(r.field) {
			one[2] = string(r.tuple)
		}
	}
	var answer [][]any
	if err := t.store.conn.call(ctx, ReplaceFunction, []any{t.space.ID, sent}, &answer); err != nil {
		return nil, err
	}
	if len(answer) != 1 || len(answer[0]) != len(sent) {
		return nil, fmt.Errorf("%w: %s gives %d answers", ErrNoInit, ReplaceFunction, len(answer))
	}
	outcomes := make([]store.Outcome, len(changes))
	for i := range changes {
		outcomes[i] = outcome(answer[0][group[i]])
	}
	return outcomes, nil
}

// sameTuple: both values were read from it at one time.
func sameTuple(a, b *ref) bool {
	return len(a.tuple) > 0 && len(b.tuple) > 0 && &a.tuple[0] == &b.tuple[0]
}

// typed reports that the format says whether the field is a string or a binary, which Lua
// can't tell apart. Where it doesn't, all of the tuple is compared.
func (t *TupleSpace) typed(field int) bool {
	kind := t.space.FieldAt(field).Type
	return kind == "string" || kind == "varbinary"
}

// fieldChange is one entry of cinch_replace's lists. Bytes go as strings, as Lua has them.
func (t *TupleSpace) fieldChange(r *ref, c *store.Change) []any {
	return []any{r.field + 1, text(c.Value.Stored), text(c.New), r.binary}
}

// text is sent as a string of MessagePack.
type text []byte

// EncodeMsgpack implements msgpack.CustomEncoder.
func (s text) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeString(string(s)) }

// outcome understands what cinch_replace says of a change.
func outcome(answer any) store.Outcome {
	if done, ok := answer.(bool); ok {
		return store.Outcome{Replaced: done}
	}
	refusal, _ := answer.([]any)
	code, _ := integer(widened(at(refusal, 0)))
	message, _ := at(refusal, 1).(string)
	err := fmt.Errorf("%s (error %d)", message, code)
	switch iproto.Error(code) {
	case iproto.ER_ACCESS_DENIED:
		return store.Outcome{Skip: store.Denied}
	case iproto.ER_READONLY:
		return store.Outcome{Err: fmt.Errorf("%w: %w", store.ErrReadOnly, err)}
	case iproto.ER_MEMORY_ISSUE:
		return store.Outcome{Err: fmt.Errorf("%w: %w", store.ErrFull, err)}
	}
	return store.Outcome{Err: err}
}

// widened is any of the decoder's integers as an int64.
func widened(v any) any {
	switch n := v.(type) {
	case int8:
		return int64(n)
	case int16:
		return int64(n)
	case int32:
		return int64(n)
	case uint8:
		return int64(n)
	case uint16:
		return int64(n)
	case uint32:
		return int64(n)
	}
	return v
}
