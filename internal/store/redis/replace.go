package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

var (
	// ErrReplica: the server is a replica, where nothing can be replaced.
	ErrReplica = errors.New("the server is a replica")

	errReply = errors.New("unexpected form of a reply")
)

// Unavailable reports whether an error means that the server could not be asked, or was
// not ready to answer, so that trying again makes sense.
func Unavailable(err error) bool {
	return err != nil && (!isAnswer(err) || isTransient(err)) && !errors.Is(err, ErrReplica) && !errors.Is(err, errReply) && !errors.Is(err, store.ErrGateway)
}

// A batch of changes is one script, during which the server does nothing else, so it is short. One round trip carries
// several: clients' commands come in between.
const (
	maxBatch      = 64
	maxBatchBytes = 512 << 10
)

// prepared holds the abilities that all nodes have in common when the store is opened, and scripts for them. Any
// node may get any script, since slots move.
type prepared struct {
	lua           bool // the user may run scripts
	flags         bool // scripts may request to run on a full server (Redis 7)
	expiring      bool // fields of hashes can expire on some node; if not, scripts ask again, see putField
	listpackCount int  // limits within which a hash is a listpack; 0: unknown
	listpackBytes int

	// Scripts that replace values, and one that recreates a hash. A full server refuses those that make
	// values grow.
	strings, growStrings, fields, growFields, rebuild string
}

func (s *Store) prepare(ctx context.Context) error {
	if s.readOnly {
		return nil
	}
	p := prepared{lua: true, flags: true, listpackCount: maxRebuild, listpackBytes: math.MaxInt}
	for _, n := range s.nodes {
		err := n.client.Eval(ctx, "return 1", nil).Err()
		if err != nil && !isAnswer(err) {
			return err
		}
		p.lua = p.lua && err == nil
		p.flags = p.flags && n.client.Eval(ctx, allowFull+"return 1", nil).Err() == nil
		commands, err := n.client.Do(ctx, "command", "info", "hpexpiretime").Slice()
		p.expiring = p.expiring || err == nil && len(commands) == 1 && commands[0] != nil
		p.listpackCount = min(p.listpackCount, n.limit(ctx, "entries"))
		p.listpackBytes = min(p.listpackBytes, n.limit(ctx, "value"))
	}
	p.compose()
	s.ready = p
	return nil
}

// limit returns a setting that older servers have under another name; 0: unknown.
func (n *Node) limit(ctx context.Context, of string) int {
	for _, name := range []string{"hash-max-listpack-", "hash-max-ziplist-"} {
		config, err := n.client.ConfigGet(ctx, name+of).Result()
		if limit, convErr := strconv.Atoi(config[name+of]); err == nil && convErr == nil {
			return limit
		}
	}
	return 0
}

// Replace makes each change in one atomic step, and only if the server still holds exactly Value.Stored. Expiries
// stay. Outcomes are in the order of the changes. After an error it is unknown what was replaced.
func (s *Space) Replace(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	out := make([]store.Outcome, len(changes))
	if s.node.store.readOnly { // as promised to Open
		for i := range out {
			out[i].Err = store.ErrReadOnly
		}
		return out, nil
	}
	if !s.node.store.ready.lua {
		for i := range changes {
			var err error
			if out[i], err = s.replaceWatched(ctx, &changes[i]); err != nil {
				return out, err
			}
		}
		return out, nil
	}
	scripts := s.batches(changes)
	p := s.values.Pipeline()
	for i := range scripts {
		b := &scripts[i]
		b.reply = p.Eval(ctx, b.script, b.keys, b.args...)
	}
	if _, err := p.Exec(ctx); err != nil && !isAnswer(err) {
		return out, err
	}
	for _, b := range scripts {
		replies, err := b.reply.Slice()
		switch {
		case err != nil && (isTransient(err) || !isAnswer(err)):
			return out, err
		case err != nil:
			for _, i := range b.changes {
				out[i] = refusedBy(err)
			}
			continue
		case len(replies) != len(b.changes):
			return out, fmt.Errorf("%w: %d outcomes for %d changes", errReply, len(replies), len(b.changes))
		}
		for n, i := range b.changes {
			switch r := replies[n].(type) {
			case int64: // 1, or 0 if the value has changed
				out[i].Replaced = r == 1
			case error:
				out[i] = refusedBy(r)
			case string:
				out[i] = refusedBy(serverError(r))
			default:
				out[i].Err = errReply
			}
		}
	}
	return out, nil
}

// A batch is one call of a script, with the changes that it makes.
type batch struct {
	script  string
	keys    []string
	args    []any
	changes []int // their indexes
	bytes   int   // of the old and the new values
	isHash  bool  // all of them are fields of one hash; otherwise strings
	grows   bool
	reply   *goredis.Cmd
}

// batches groups changes: strings with strings, and the fields of one hash. Changes that make a value grow
// are separate, since a full server must refuse those. In a cluster each string is separate, because keys of
// one script must share a slot.
func (s *Space) batches(changes []store.Change) []batch {
	var all []batch
	ready, cluster := &s.node.store.ready, s.node.store.cluster != nil
	for i := range changes {
		v, stored := changes[i].Value, changes[i].New
		key, isHash, grows, size := string(v.Key), v.Type == store.Hash, len(stored) > len(v.Stored), len(stored)+len(v.Stored)
		fits := false
		if len(all) > 0 {
			last := &all[len(all)-1]
			together := !cluster
			if isHash {
				together = last.keys[0] == key
			}
			fits = last.isHash == isHash && last.grows == grows && together && len(last.changes) < maxBatch && last.bytes+size <= maxBatchBytes
		}
		if !fits {
			script := ready.strings
			switch {
			case isHash && grows:
				script = ready.growFields
			case isHash:
				script = ready.fields
			case grows:
				script = ready.growStrings
			}
			all = append(all, batch{script: script, isHash: isHash, grows: grows})
		}
		b := &all[len(all)-1]
		if isHash {
			b.keys = append(b.keys[:0], key)
			b.args = append(b.args, v.Field)
		} else {
			b.keys = append(b.keys, key)
		}
		b.args = append(b.args, v.Stored, stored)
		b.changes, b.bytes = append(b.changes, i), b.bytes+size
	}
	return all
}

// serverError is the text of an error that a script returned.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

func refusedBy(err error) store.Outcome {
	switch {
	case goredis.HasErrorPrefix(err, "NOPERM"), isScriptDenial(err):
		return store.Outcome{Skip: store.Denied}
	case goredis.HasErrorPrefix(err, "OOM"):
		return store.Outcome{Err: fmt.Errorf("%w: %w", store.ErrFull, err)}
	case goredis.HasErrorPrefix(err, "READONLY"):
		return store.Outcome{Err: fmt.Errorf("%w: %w", store.ErrReadOnly, err)}
	}
	return store.Outcome{Err: err}
}

// replaceWatched is Replace of one change for users who may not run scripts.
func (s *Space) replaceWatched(ctx context.Context, c *store.Change) (store.Outcome, error) {
	var o store.Outcome
	v, key := c.Value, string(c.Value.Key)
	err := s.values.Watch(ctx, func(tx *goredis.Tx) error {
		now, err := readWatched(ctx, tx, v)
		if err != nil || string(now) != string(v.Stored) {
			return err
		}
		expiry, err := s.fieldExpiry(ctx, tx, v)
		if err != nil {
			return err
		}
		cmds, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			if v.Type == store.Hash {
				p.HSet(ctx, key, v.Field, c.New)
			} else {
				p.Set(ctx, key, c.New, goredis.KeepTTL)
			}
			if expiry >= 0 { // HSET has removed the expiry; if it has passed, the field is deleted
				p.Do(ctx, "HPEXPIREAT", key, expiry, "FIELDS", 1, v.Field)
			}
			return nil
		})
		o.Replaced = err == nil
		for _, cmd := range cmds {
			if e := cmd.Err(); goredis.HasErrorPrefix(err, "EXECABORT") && e != nil {
				err = e // why the server refused the command
			}
		}
		return err
	}, key)
	switch {
	case err == nil, errors.Is(err, goredis.TxFailedErr), errors.Is(err, goredis.Nil), isWrongType(err):
		return o, nil
	case isAnswer(err) && !isTransient(err):
		return refusedBy(err), nil
	}
	return o, err
}

// fieldExpiry returns when a field expires, in Unix milliseconds; below 0: never.
func (s *Space) fieldExpiry(ctx context.Context, tx *goredis.Tx, v *store.Value) (int64, error) {
	if v.Type != store.Hash {
		return -1, nil
	}
	at, err := tx.HPExpireTime(ctx, string(v.Key), string(v.Field)).Result()
	if err != nil && isUnknownCommand(err) {
		return -1, nil
	}
	if err != nil || len(at) != 1 {
		return -1, err
	}
	return at[0], nil
}

func readWatched(ctx context.Context, tx *goredis.Tx, v *store.Value) ([]byte, error) {
	if v.Type == store.Hash {
		return tx.HGet(ctx, string(v.Key), string(v.Field)).Bytes()
	}
	return tx.Get(ctx, string(v.Key)).Bytes()
}
