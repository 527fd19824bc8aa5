package tarantool

import (
	"context"

	"github.com/cinch-layer/cinch/internal/store"
)

// Counts returns the number of tuples in each of the spaces, or nil if the user has no right to know. That takes what
// 'cinch tarantool init' installs, or the right to run Lua.
func (c *Conn) Counts(ctx context.Context, spaces []uint32) ([]int64, error) {
	st, err := status(ctx, c, spaces)
	if err == nil {
		return st.Tuples, nil
	}
	if Unavailable(err) {
		return nil, err
	}
	var counts [][]int64
	err = c.eval(ctx, `local counts = {} for i, id in ipairs(...) do counts[i] = box.space[id]:len() end return counts`, []any{spaces}, &counts)
	if Unavailable(err) {
		return nil, err
	}
	if err != nil || len(counts) != 1 || len(counts[0]) != len(spaces) {
		return nil, nil //nolint:nilerr // unknown
	}
	return counts[0], nil
}

// CPU returns the CPU time that the server's process has used, in seconds, or -1 if the user has no right to run Lua.
func (c *Conn) CPU(ctx context.Context) (float64, error) {
	var answer []float64
	err := c.eval(ctx, `return require('clock').proc()`, nil, &answer)
	if Unavailable(err) {
		return 0, err
	}
	if err != nil || len(answer) != 1 {
		return -1, nil //nolint:nilerr // unknown
	}
	return answer[0], nil
}

// Activity returns the server's own counts of requests since it was started, or zeros if the user has no right to run
// Lua.
func (c *Conn) Activity(ctx context.Context) (store.Activity, error) {
	var answer []float64
	err := c.eval(ctx, `local s = box.stat() local function n(k) return s[k] and s[k].total or 0 end
		return box.info.uptime, n('SELECT'), n('INSERT') + n('REPLACE') + n('UPDATE') + n('UPSERT')`, nil, &answer)
	if Unavailable(err) {
		return store.Activity{}, err
	}
	if err != nil || len(answer) != 3 {
		return store.Activity{}, nil //nolint:nilerr // unknown
	}
	return store.Activity{Uptime: answer[0], Reads: answer[1], Writes: answer[2]}, nil
}
