package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/ui"
)

// readTuple fetches a field of a tuple. Its server is left open in dicts, for its dictionaries.
func (o inspectOptions) readTuple(ctx context.Context, dicts *dictSources) ([]byte, error) {
	if o.space == "" || o.key == "" || o.field == "" {
		return nil, wrongUsage(ui.WithHint(errors.New("which field of which tuple?"), "cinch inspect tarantool://… --space docs --field body 7"))
	}
	key, err := tupleKey(o.key)
	if err != nil {
		return nil, err
	}
	c, name, err := connectTarantool(ctx, o.target)
	if err != nil {
		return nil, err
	}
	dicts.conn, dicts.tuples = c, storetarantool.NewDicts(c, nil)
	s, err := storetarantool.Open(ctx, c, storetarantool.OpenOptions{Name: name, ReadOnly: true})
	if err != nil {
		return nil, tarantoolFailure(name, err)
	}
	for _, space := range s.Spaces() {
		if space.DB() != o.space {
			continue
		}
		field, err := fieldNumber(space.Space(), o.field)
		if err != nil {
			return nil, err
		}
		stored, err := space.Field(ctx, key, field)
		if err == nil && stored == nil {
			err = fmt.Errorf("space %s has no tuple %s with a string or binary in field %s", o.space, o.key, o.field)
		}
		if err != nil {
			return nil, tarantoolFailure(name, err)
		}
		return stored, nil
	}
	return nil, fmt.Errorf("%s: there is no space %s that the user may read", name, o.space)
}

// fieldNumber takes a field's name, or its number from 1.
func fieldNumber(s *storetarantool.Space, name string) (int, error) {
	if n, ok := s.FieldNumber(name); ok {
		return n, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		return n - 1, nil
	}
	return 0, fmt.Errorf("space %s has no field %s", s.Name, name)
}

// tupleKey reads a key as JSON: a list of its parts, or the only one; what is no JSON is a string.
func tupleKey(text string) ([]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return []any{text}, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for i, part := range list {
		n, ok := part.(json.Number)
		if !ok {
			continue
		}
		if whole, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
			list[i] = whole
		} else if natural, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
			list[i] = natural
		} else if list[i], err = n.Float64(); err != nil {
			return nil, fmt.Errorf("key %s: %w", text, err)
		}
	}
	return list, nil
}
