package tarantool

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tarantool/go-iproto"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Replace replaces values, each only if it is still what was read. All changes are made in one call; those of
// one tuple are made together or not at all.
func (t *TupleSpace) Replace(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	var sent [][]any
	group := make([]int, len(changes)) // for each change, its index in sent
	for i := range changes {
		r := changes[i].Value.Ref.(*ref)
		if i == 0 || !sameTuple(r, changes[i-1].Value.Ref.(*ref)) {
			sent = append(sent, []any{r.key, [][]any{}, nil})
		}
		group[i] = len(sent) - 1
		one := sent[group[i]]
		one[1] = append(one[1].([][]any), t.fieldChange(r, &changes[i]))
		if !t.isTyped(r.field) {
			one[2] = string(r.tuple)
		}
	}
	answer, err := t.replace(ctx, sent)
	if err != nil {
		return nil, err
	}
	if len(answer) != 1 || len(answer[0]) != len(sent) {
		return nil, fmt.Errorf("%w: %s returned %d values", ErrNoInit, ReplaceFunction, len(answer))
	}
	outcomes := make([]store.Outcome, len(changes))
	for i := range changes {
		outcomes[i] = outcome(answer[0][group[i]])
	}
	return outcomes, nil
}

// replace calls cinch_replace with the schema version by which fields were chosen.
func (t *TupleSpace) replace(ctx context.Context, sent [][]any) (answer [][]any, err error) {
	for range schemaTries {
		args := []any{t.space.ID, sent}
		if !t.all { // with all, fields were chosen even if a constraint reads them, so the schema does not matter
			args = append(args, t.store.version.Load())
		}
		err = t.store.conn.call(ctx, ReplaceFunction, args, &answer)
		if !isCode(err, iproto.ER_WRONG_SCHEMA_VERSION) {
			return answer, err
		}
		if err := t.reload(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrSchemaMoves, err)
}

// ErrSchemaChanged: a walked field has come under an index or a constraint, or is another field now. Values
// read under the former schema must not be replaced.
var ErrSchemaChanged = errors.New("the schema has changed during the run")

const schemaTries = 10

// reload reads the schema again and adopts its version if the walked fields are still the same.
func (t *TupleSpace) reload(ctx context.Context) error {
	now, err := Load(ctx, t.store.conn)
	if err != nil {
		return err
	}
	for _, other := range t.store.spaces {
		if err := other.checkFields(now.Space(other.space.ID)); err != nil {
			return err
		}
	}
	t.store.version.Store(now.Version)
	return nil
}

// checkFields compares the walked fields with the space's current ones.
func (t *TupleSpace) checkFields(now *schema.Space) error {
	if now == nil || now.Name != t.space.Name {
		return fmt.Errorf("%w: space %s no longer exists", ErrSchemaChanged, t.space.Name)
	}
	for number := range t.fields {
		if reason := now.ConstraintFor(number, t.trusted[number]); reason != "" || now.FieldName(number) != t.space.FieldName(number) {
			return fmt.Errorf("%w: field %s of space %s: %s", ErrSchemaChanged, t.space.FieldName(number), t.space.Name, cmp.Or(reason, "another field has its number"))
		}
	}
	return nil
}

// sameTuple reports whether both values were read from one tuple at one time.
func sameTuple(a, b *ref) bool {
	return len(a.tuple) > 0 && len(b.tuple) > 0 && &a.tuple[0] == &b.tuple[0]
}

// isTyped reports whether the format says that the field is a string or a binary, which Lua can't tell apart.
// Otherwise the whole tuple is compared.
func (t *TupleSpace) isTyped(field int) bool {
	kind := t.space.FieldAt(field).Type
	return kind == "string" || kind == "varbinary"
}

// fieldChange returns one entry of cinch_replace's lists. Bytes are sent as strings, as Lua has them.
func (t *TupleSpace) fieldChange(r *ref, c *store.Change) []any {
	return []any{r.field + 1, text(c.Value.Stored), text(c.New), r.binary}
}

// outcome decodes cinch_replace's answer for a change.
func outcome(answer any) store.Outcome {
	if done, ok := answer.(bool); ok {
		return store.Outcome{Replaced: done}
	}
	list, _ := answer.([]any)
	refusal := schema.Tuple(list)
	code := widened(refusal.At(0))
	message, _ := refusal.At(1).(string)
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

// widened converts any integer of the decoder to an int64.
func widened(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
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
	return 0
}
