package redis

import (
	"context"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// A Space is one database of one primary.
type Space struct {
	node   *Node
	db     int
	scan   *goredis.Client         // finds keys
	values goredis.UniversalClient // reads and replaces
}

// Name returns the address and the database: the space's name in messages.
func (s *Space) Name() string { return s.node.addr + "/" + s.DB() }

// DB returns the database's number.
func (s *Space) DB() string { return strconv.Itoa(s.db) }

// Keys returns the number of keys, those that hold dictionaries included.
func (s *Space) Keys(ctx context.Context) (int64, error) { return s.scan.DBSize(ctx).Result() }

// Page takes a step of about o.Count keys from a cursor, "" at the start, and returns the cursor to go on with, ""
// at the end. o.Match is a pattern ("" for any) and o.Kind a type as TYPE reports it ("" for any). A key may be
// found twice, and a step may find none. Keys that hold dictionaries are left out.
func (s *Space) Page(ctx context.Context, cursor string, o store.ScanOptions) (store.Page, error) {
	at, err := number(cursor)
	if err != nil {
		return store.Page{}, err
	}
	args := []any{"scan", at, "count", o.Count}
	if o.Match != "" {
		args = append(args, "match", o.Match)
	}
	if o.Kind != "" {
		args = append(args, "type", o.Kind)
	}
	cmd := goredis.NewScanCmd(ctx, nil, args...)
	if o.RunID == "" {
		err = s.scan.Process(ctx, cmd)
	} else {
		err = s.scanOf(ctx, o.RunID, cmd)
	}
	if err != nil {
		return store.Page{}, classify(err)
	}
	names, next := cmd.Val()
	page := store.Page{Keys: make([][]byte, 0, len(names))}
	for _, name := range names {
		if !strings.HasPrefix(name, keyPrefix) || s.db != 0 {
			page.Keys = append(page.Keys, []byte(name))
		}
	}
	if next != 0 {
		page.Next = strconv.FormatUint(next, 10)
	}
	return page, nil
}

// scanOf takes a step of a scan, and checks on the same connection that the process with the given run ID
// answers: the pool silently replaces connections that a restart has closed.
func (s *Space) scanOf(ctx context.Context, run string, scan *goredis.ScanCmd) error {
	p := s.scan.Pipeline()
	_ = p.Process(ctx, scan)
	info := p.Info(ctx, "server")
	if _, err := p.Exec(ctx); err != nil {
		return err
	}
	if process, _, _ := strings.Cut(run, "/"); infoFields(info.Val())[runID] != process {
		return store.ErrRestarted
	}
	return nil
}

// Share returns the share of the server's hash table that lies before a cursor. Cursors count up with their bits
// reversed.
func (s *Space) Share(cursor string) float64 {
	at, _ := number(cursor)
	return float64(bits.Reverse64(at)) / (1 << 64)
}

// number parses a cursor.
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
