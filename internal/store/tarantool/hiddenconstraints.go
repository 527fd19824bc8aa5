package tarantool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// A user with rights on its own spaces only may not read the system spaces in which servers before 2.11 keep
// all constraints. Parts of their content may be available to it in other ways.

var errNotReported = errors.New("the server does not report")

// loadForeignKeys reads foreign keys by SQL, which shows them to every user. The fields that they refer to
// have a unique index, which is visible anyway.
func (l *loader) loadForeignKeys() error {
	for _, s := range l.builder.Spaces() {
		if s.System() || s.View {
			continue
		}
		var rows []schema.Tuple
		query := `PRAGMA foreign_key_list("` + strings.ReplaceAll(s.Name, `"`, `""`) + `")`
		err := l.live.do(l.ctx, l.timeout, func(ctx context.Context) tnt.Request { return tnt.NewExecuteRequest(query).Context(ctx) }, &rows)
		if err != nil {
			return err
		}
		for _, row := range rows {
			s.AddReference(row)
		}
	}
	return nil
}

// luaChecks returns the checks that the server has in memory, to users who may run Lua.
const luaChecks = `local all = setmetatable({}, {__serialize = 'seq'})
for id, space in pairs(box.space) do
	if type(id) == 'number' and id > 511 then
		if space.ck_constraint == nil then error('cinch: checks are not told') end
		for name, check in pairs(space.ck_constraint) do
			table.insert(all, {id, name, false, 'SQL', check.expr})
		end
	end
end
return all`

// loadChecks reads check constraints by Lua.
func (l *loader) loadChecks() error {
	var answer []rawTuples
	err := l.live.do(l.ctx, l.timeout, func(ctx context.Context) tnt.Request {
		return tnt.NewEvalRequest(luaChecks).Args([]any{}).Context(ctx)
	}, &answer)
	if err != nil {
		return err
	}
	if len(answer) != 1 {
		return fmt.Errorf("%w: which check constraints there are", errNotReported)
	}
	for _, t := range answer[0] {
		if err := l.builder.AddCheck(t); err != nil {
			return err
		}
	}
	return nil
}
