package tarantool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	tnt "github.com/tarantool/go-tarantool/v2"
)

// A user with rights on its own spaces only may not read the system spaces in which servers before 2.11 keep
// all constraints. Parts of their content may be available to it in other ways.

var errNotReported = errors.New("the server does not report")

// loadForeignKeys reads foreign keys by SQL, which shows them to every user. The fields that they refer to
// have a unique index, which is visible anyway.
func (l *loader) loadForeignKeys() error {
	for _, s := range l.schema.spaces {
		if s.System() || s.View {
			continue
		}
		var rows [][]any
		query := `PRAGMA foreign_key_list("` + strings.ReplaceAll(s.Name, `"`, `""`) + `")`
		err := l.live.do(l.ctx, l.timeout, func(ctx context.Context) tnt.Request { return tnt.NewExecuteRequest(query).Context(ctx) }, &rows)
		if err != nil {
			return err
		}
		for _, row := range rows { // id, seq, parent's table, column, parent's column, …
			name, ok := at(row, 3).(string)
			n, known := s.FieldNumber(name)
			if !ok || !known {
				s.constrainAll("a foreign key has a definition that this version of Cinch doesn't know")
				continue
			}
			s.constrain(n, "a foreign key to %v uses the field", at(row, 2))
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
		if err := l.addCheck(t); err != nil {
			return err
		}
	}
	return nil
}

// addForeignKey reads [name, child, parent, deferred, match, on delete, on update, [child fields], [parent
// fields]].
func (l *loader) addForeignKey(t []any) error {
	for _, side := range []struct{ space, fields int }{{1, 7}, {2, 8}} {
		id, _ := integer(at(t, side.space))
		s := l.schema.Space(uint32(id))
		if s == nil {
			continue // created since the spaces were read, or not visible
		}
		fields, ok := at(t, side.fields).([]any)
		if !ok {
			s.constrainAll("foreign key %v has a definition that this version of Cinch doesn't know", at(t, 0))
		}
		for _, f := range fields {
			n, _ := integer(f)
			s.constrain(int(n), "foreign key %v uses the field", at(t, 0))
		}
	}
	return nil
}

// addCheck reads [space, name, deferred, language, expression, enabled].
func (l *loader) addCheck(t []any) error {
	id, _ := integer(at(t, 0))
	s := l.schema.Space(uint32(id))
	if s == nil {
		return nil
	}
	code, ok := at(t, 4).(string)
	if !ok {
		s.constrainAll("check constraint %v has a definition that this version of Cinch doesn't know", at(t, 1))
	}
	for _, f := range s.Fields {
		if Mentions(code, f.Name) {
			s.constrain(f.Number, "check constraint %v reads the field", at(t, 1))
		}
	}
	return nil
}
