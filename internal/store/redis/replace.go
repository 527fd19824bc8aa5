package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

var (
	// ErrReplica: the server is a replica, where nothing can be replaced.
	ErrReplica = errors.New("the server is a replica")

	errReply = errors.New("a reply that can't be understood")
)

// Unavailable reports whether an error means that the server could not be asked, or was
// not ready to answer, so that trying again makes sense.
func Unavailable(err error) bool {
	return err != nil && (!isAnswer(err) || isTransient(err)) && !errors.Is(err, ErrReplica) && !errors.Is(err, errReply) && !errors.Is(err, store.ErrGateway)
}

// A batch of changes is one script, so it must be short: nothing else runs meanwhile.
const (
	maxBatch      = 64
	maxBatchBytes = 512 << 10
)

// prepared is what was found out about the server before anything is replaced.
type prepared struct {
	lua           bool // the user may run scripts
	flags         bool // scripts may say that they run on a full server (Redis 7)
	fieldExpiry   bool // fields of hashes may expire, which HSET would end
	listpackCount int  // limits within which a hash is a listpack; 0: unknown
	listpackBytes int
}

func (s *Store) prepare(ctx context.Context, info map[string]string) error {
	c := s.nodes[0].client
	if !s.readOnly {
		err := c.Eval(ctx, "return 1", nil).Err()
		if err != nil && !isAnswer(err) {
			return err
		}
		s.ready.lua = err == nil
		s.ready.flags = s.ready.lua && c.Eval(ctx, allowFull+"return 1", nil).Err() == nil
	}
	commands, err := c.Do(ctx, "command", "info", "hpttl").Slice()
	if err != nil && !isAnswer(err) {
		return err
	}
	if err == nil {
		s.ready.fieldExpiry = len(commands) == 1 && commands[0] != nil
	} else { // it may not be asked: assume the worse
		s.ready.fieldExpiry = mayExpireFields(info)
	}
	s.ready.listpackCount = s.limit(ctx, "entries")
	s.ready.listpackBytes = s.limit(ctx, "value")
	return nil
}

// mayExpireFields goes by versions: Redis 7.4 was the first, Valkey 9.
func mayExpireFields(info map[string]string) bool {
	var major, minor int
	_, err := fmt.Sscanf(info["redis_version"], "%d.%d", &major, &minor)
	return err != nil || info["valkey_version"] != "" || major > 7 || major == 7 && minor >= 4
}

// limit is a setting that older servers have under another name.
func (s *Store) limit(ctx context.Context, of string) int {
	for _, name := range []string{"hash-max-listpack-", "hash-max-ziplist-"} {
		config, err := s.nodes[0].client.ConfigGet(ctx, name+of).Result()
		if n, convErr := strconv.Atoi(config[name+of]); err == nil && convErr == nil {
			return n
		}
	}
	return 0
}

// Replace carries out changes, each of them only if the server still holds exactly the
// bytes that it changes, in one step on the server; expiries stay. Outcomes are in the
// order of the changes. An error means that nobody knows what was replaced.
func (s *Space) Replace(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	out := make([]store.Outcome, len(changes))
	if s.node.store.readOnly { // that was a promise
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
	calls := s.calls(changes)
	p := s.values.Pipeline()
	for i := range calls {
		calls[i].cmd = p.Eval(ctx, calls[i].script, calls[i].keys, calls[i].args...)
	}
	if _, err := p.Exec(ctx); err != nil && !isAnswer(err) {
		return out, err
	}
	for i := range calls {
		if err := calls[i].read(out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// A call is one script with the changes that it carries out.
type call struct {
	script  string
	keys    []string
	args    []any
	changes []int // places in the list of changes
	bytes   int
	grows   bool
	cmd     *goredis.Cmd
}

// calls puts changes together: strings with strings, the fields of one hash. What makes
// a value grow stays apart, since a full server has to refuse that. In a cluster each
// string goes alone, because keys of one script must share a slot.
func (s *Space) calls(changes []store.Change) []call {
	var calls []call
	for i := range changes {
		c := &changes[i]
		isHash, grows := c.Value.Type == store.Hash, len(c.New) > len(c.Value.Stored)
		last := len(calls) - 1
		size := len(c.New) + len(c.Value.Stored)
		if last < 0 || !calls[last].takes(string(c.Value.Key), isHash, grows, size, s.node.store.cluster != nil) {
			calls = append(calls, call{script: s.node.store.ready.script(isHash, grows), grows: grows})
			last++
		}
		to := &calls[last]
		if isHash {
			to.keys = append(to.keys[:0], string(c.Value.Key))
			to.args = append(to.args, c.Value.Field)
		} else {
			to.keys = append(to.keys, string(c.Value.Key))
		}
		to.args = append(to.args, c.Value.Stored, c.New)
		to.changes, to.bytes = append(to.changes, i), to.bytes+size
	}
	return calls
}

func (c *call) takes(key string, isHash, grows bool, size int, cluster bool) bool {
	if len(c.changes) == maxBatch || c.bytes+size > maxBatchBytes || c.grows != grows {
		return false
	}
	if isHash {
		return len(c.keys) == 1 && len(c.args) == 3*len(c.changes) && c.keys[0] == key
	}
	return !cluster && len(c.args) == 2*len(c.changes)
}

// What the scripts answer for each change.
const (
	doneChanged  = 0 // the value is another by now
	doneReplaced = 1
)

// read turns the answer of a call into outcomes.
func (c *call) read(out []store.Outcome) error {
	replies, err := c.cmd.Slice()
	if err != nil {
		if isTransient(err) || !isAnswer(err) {
			return err
		}
		for _, i := range c.changes {
			out[i] = refusedBy(err)
		}
		return nil
	}
	if len(replies) != len(c.changes) {
		return fmt.Errorf("%w: %d outcomes of %d changes", errReply, len(replies), len(c.changes))
	}
	for n, reply := range replies {
		out[c.changes[n]] = outcome(reply)
	}
	return nil
}

func outcome(reply any) store.Outcome {
	switch r := reply.(type) {
	case int64:
		return store.Outcome{Replaced: r == doneReplaced}
	case error:
		return refusedBy(r)
	case string:
		return refusedBy(serverError(r))
	}
	return store.Outcome{Err: errReply}
}

// serverError is an error that a script met and handed on as text.
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
		_, err = tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			if v.Type == store.Hash {
				p.HSet(ctx, key, v.Field, c.New)
			} else {
				p.Set(ctx, key, c.New, goredis.KeepTTL)
			}
			if expiry >= 0 { // which HSET has ended; once it is over the field goes
				p.Do(ctx, "HPEXPIREAT", key, expiry, "FIELDS", 1, v.Field)
			}
			return nil
		})
		o.Replaced = err == nil
		return err
	}, key)
	switch {
	case err == nil, errors.Is(err, goredis.TxFailedErr), errors.Is(err, goredis.Nil), isWrongType(err):
		return o, nil
	case goredis.HasErrorPrefix(err, "EXECABORT"):
		return s.abortedBy(ctx, err)
	case isAnswer(err) && !isTransient(err):
		return refusedBy(err), nil
	}
	return o, err
}

// fieldExpiry is when a field expires, in milliseconds; below 0: never.
func (s *Space) fieldExpiry(ctx context.Context, tx *goredis.Tx, v *store.Value) (int64, error) {
	if v.Type != store.Hash || !s.node.store.ready.fieldExpiry {
		return -1, nil
	}
	at, err := tx.HPExpireTime(ctx, string(v.Key), string(v.Field)).Result()
	if err != nil || len(at) != 1 {
		return -1, err
	}
	return at[0], nil
}

// abortedBy finds out why the server did not take the command of a transaction, which
// the client doesn't tell: no right to it, or no memory.
func (s *Space) abortedBy(ctx context.Context, abort error) (store.Outcome, error) {
	m, err := s.node.Memory(ctx)
	switch {
	case err != nil:
		return store.Outcome{}, err
	case m.Limit > 0 && m.Used >= m.Limit:
		return store.Outcome{Err: fmt.Errorf("%w: %w", store.ErrFull, abort)}, nil
	}
	return store.Outcome{Skip: store.Denied}, nil
}

func readWatched(ctx context.Context, tx *goredis.Tx, v *store.Value) ([]byte, error) {
	if v.Type == store.Hash {
		return tx.HGet(ctx, string(v.Key), string(v.Field)).Bytes()
	}
	return tx.Get(ctx, string(v.Key)).Bytes()
}
