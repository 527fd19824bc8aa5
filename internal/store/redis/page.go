package redis

import (
	"context"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/cinch-layer/cinch/internal/store"
)

// Page is a step of Scan, with the cursor as text: "" at the beginning and at the end.
func (s *Space) Page(ctx context.Context, cursor string, o store.ScanOptions) (store.Page, error) {
	at, err := number(cursor)
	if err != nil {
		return store.Page{}, err
	}
	keys, next, err := s.Scan(ctx, at, o.Count, o.Match, o.Kind)
	if err != nil || next == 0 {
		return store.Page{Keys: keys}, err
	}
	return store.Page{Keys: keys, Next: strconv.FormatUint(next, 10)}, nil
}

// Share is the share of the server's hash table that a cursor has behind it: cursors count
// with their bits reversed.
func (s *Space) Share(cursor string) float64 {
	at, _ := number(cursor)
	return float64(bits.Reverse64(at)) / (1 << 64)
}

func number(cursor string) (uint64, error) {
	if cursor == "" {
		return 0, nil
	}
	at, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cursor %q: %w", cursor, err)
	}
	return at, nil
}
