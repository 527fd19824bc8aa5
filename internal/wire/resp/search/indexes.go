// Package search finds out which hashes a server's search indexes cover.
//
// A search module (RediSearch, Valkey Search) indexes hashes by key prefix inside the server, which sees what
// is stored. So hashes that an index covers must not be compressed: neither the fields of its schema nor the
// others, which queries may load and compute on.
//
// It does not know connections: it asks through a CommandFunc.
package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var errReply = errors.New("unexpected form of a reply")

// Indexes describes a server's search indexes over hashes.
type Indexes struct {
	// Prefixes are the key prefixes of indexed hashes, sorted; "" covers all keys.
	Prefixes []string
	// Unknown is the error if the server could not be asked. Any hash may be indexed then.
	Unknown error
}

// Covers reports whether the hash at key may be indexed.
func (x *Indexes) Covers(key []byte) bool {
	if x == nil {
		return false
	}
	return x.Unknown != nil || slices.ContainsFunc(x.Prefixes, func(p string) bool {
		return len(key) >= len(p) && string(key[:len(p)]) == p
	})
}

// CommandFunc sends a command to a server and returns its reply. An error reply must be an error with a method
// RedisError, as go-redis returns it.
type CommandFunc func(ctx context.Context, args ...any) (any, error)

// IndexTracker looks up a server's search indexes repeatedly. The zero value has seen none.
type IndexTracker struct {
	seen map[string][]string // prefixes by index; none for an index over JSON
}

// Refresh asks the server. The coverage of an index never changes, so Refresh asks only about new names, unless
// fresh says that an index may have been dropped and recreated.
func (l *IndexTracker) Refresh(ctx context.Context, ask CommandFunc, fresh bool) Indexes {
	names, err := indexNames(ctx, ask)
	seen := make(map[string][]string, len(names))
	var found Indexes
	for _, name := range names {
		prefixes, known := l.seen[name]
		if !known || fresh {
			if prefixes, err = indexPrefixes(ctx, ask, name); err != nil {
				break
			}
		}
		seen[name] = prefixes
		found.Prefixes = append(found.Prefixes, prefixes...)
	}
	if err != nil {
		return Indexes{Unknown: err}
	}
	l.seen = seen
	slices.Sort(found.Prefixes)
	found.Prefixes = slices.Compact(found.Prefixes)
	return found
}

// IsSmall reports whether asking about all indexes again costs the server little.
func (l *IndexTracker) IsSmall() bool { return len(l.seen) <= 16 }

// indexNames returns the names of all indexes; none if there is no search module.
func indexNames(ctx context.Context, ask CommandFunc) ([]string, error) {
	if info, err := ask(ctx, "COMMAND", "INFO", "FT._LIST"); err == nil {
		if list, ok := info.([]any); ok && len(list) == 1 && list[0] == nil {
			return nil, nil
		}
	}
	reply, err := ask(ctx, "FT._LIST")
	if err != nil {
		if isAnswer(err) && strings.Contains(strings.ToLower(err.Error()), "unknown command") {
			return nil, nil
		}
		return nil, fmt.Errorf("FT._LIST: %w", err)
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("FT._LIST: %w", errReply)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = fmt.Sprint(list[i])
	}
	return names, nil
}

// indexPrefixes returns the prefixes of the hashes that an index covers.
func indexPrefixes(ctx context.Context, ask CommandFunc, name string) ([]string, error) {
	reply, err := ask(ctx, "FT.INFO", name)
	if err != nil {
		if text := strings.ToLower(err.Error()); isAnswer(err) && (strings.Contains(text, "no such index") || strings.Contains(text, "unknown index") || strings.Contains(text, "not found")) {
			return nil, nil // dropped meanwhile
		}
		return nil, fmt.Errorf("FT.INFO: %w", err)
	}
	definition, ok := entryOf(reply, "index_definition")
	if !ok {
		return nil, fmt.Errorf("FT.INFO: %w", errReply)
	}
	if kind, ok := entryOf(definition, "key_type"); ok && strings.EqualFold(fmt.Sprint(kind), "JSON") {
		return nil, nil
	}
	given, _ := entryOf(definition, "prefixes")
	list, _ := given.([]any)
	prefixes := make([]string, 0, len(list))
	for _, p := range list {
		prefixes = append(prefixes, IndexPrefix(fmt.Sprint(p)))
	}
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	return prefixes, nil
}

// isAnswer reports whether err is an error reply of the server, not a sign that it can't be reached.
func isAnswer(err error) bool {
	var reply interface {
		error
		RedisError()
	}
	return errors.As(err, &reply)
}

// IndexPrefix returns the key prefix for an index's PREFIX; for * it is "".
func IndexPrefix(p string) string {
	if p == "*" {
		return ""
	}
	return p
}

// entryOf finds a name in a map, or in a flat list of names and values, as RESP2 sends maps.
func entryOf(reply any, name string) (any, bool) {
	if m, ok := reply.(map[any]any); ok {
		v, ok := m[name]
		return v, ok
	}
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		if text, ok := list[i].(string); ok && text == name {
			return list[i+1], true
		}
	}
	return nil, false
}
