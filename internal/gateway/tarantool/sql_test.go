package tarantool

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

func TestStatements(t *testing.T) {
	p := newParts(t)
	p.moved(9)
	p.g.catalog.spaces.Load().guarded = []string{"docs"}
	for text, passes := range map[string][3]bool{ // with SQLRefuse, SQLProjection, SQLPass
		"SELECT * FROM other":               {true, true, true},
		"SELECT id FROM docs":               {false, true, true},
		"SELECT id FROM docs WHERE \"a\">1": {false, false, true},
		"UPDATE docs SET a = 1":             {false, false, true},
		"SELECT distinct_id FROM docs":      {false, true, true},
		"SELECT DISTINCT id FROM docs":      {false, false, true},
		"SELECT DISTINCT\tid FROM docs":     {false, false, true},
		"SELECT DISTINCT(id) FROM docs":     {false, false, true},
		"SELECT DISTINCT\"id\" FROM docs":   {false, false, true},
		// Numbers behind ORDER BY may be numbers of columns, unless they are behind LIMIT.
		"SELECT id, a FROM docs ORDER BY 2":                       {false, false, true},
		"SELECT id, a FROM docs ORDER BY credit_limit, 2":         {false, false, true},
		"SELECT id, a FROM docs ORDER BY \"limit\", 2":            {false, false, true},
		"SELECT id, a FROM docs ORDER BY \"no limit 1\", 2":       {false, false, true},
		"SELECT id, a FROM docs, order_limit ORDER BY 2":          {false, false, true},
		"SELECT id, a FROM docs, \"order limit\" ORDER\tBY 2":     {false, false, true},
		"SELECT id, a FROM docs ORDER BY id, b2 LIMIT 10":         {false, true, true},
		"SELECT id, a FROM docs WHERE order_id = 5 ORDER BY id":   {false, true, true},
		"SELECT id, a FROM docs ORDER BY id LIMIT\n2 OFFSET 10":   {false, true, true},
		"SELECT id, a FROM docs, \"order\" WHERE id = 5 LIMIT 10": {false, true, true},
	} {
		for mode, want := range passes {
			p.g.cfg.SQL = SQLMode(mode)
			if refused := p.g.checkSQL(t.Context(), p.request(wire.Execute, 0x40, text)); (refused == nil) != want {
				t.Errorf("%s in mode %d: %v", text, mode, refused)
			}
		}
	}
}

func TestSQL(t *testing.T) {
	statements := map[string][3]bool{ // answered in refuse, projection, pass
		`SELECT "id", "doc" FROM "docs" WHERE "id" = 1`:                   {false, true, true},
		`SELECT * FROM "docs"`:                                            {false, true, true},
		`SELECT length("doc") FROM "docs"`:                                {false, false, true},
		`SELECT "id" FROM "docs" WHERE "doc" LIKE 'x%'`:                   {false, false, true},
		`SELECT "id" FROM "docs" ORDER BY "doc"`:                          {false, false, true},
		`UPDATE "docs" SET "doc" = 'x' WHERE "id" = 77`:                   {false, false, true},
		`SELECT "id" FROM "docs" WHERE "id" IN (SELECT "id" FROM "docs")`: {false, false, true},
		`SELECT "id", "doc" FROM "look" WHERE "id" = 1`:                   {false, true, true},
		`SELECT upper("doc") FROM "look"`:                                 {false, false, true},
		`SELECT "id", "doc" FROM "docs" ORDER BY "id" LIMIT 1`:            {false, true, true},
		`SELECT "id", "doc" FROM "docs" ORDER BY 2`:                       {false, false, true},
		`SELECT "doc" FROM "docs" GROUP BY 1`:                             {false, false, true},
		`SELECT "doc" FROM "docs" EXCEPT VALUES (?)`:                      {false, false, true},
		`SELECT "id" FROM "docs" NATURAL JOIN "look"`:                     {false, false, true},
		`SELECT "i" FROM "renamed" WHERE "d" = ?`:                         {false, false, true},
		`SELECT "i", "d" FROM "computed"`:                                 {false, false, true},
		`SELECT 1`:                                                        {true, true, true},
	}
	for mode := SQLRefuse; mode <= SQLPass; mode++ {
		b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) { c.SQL = mode })
		c := b.client()
		b.put(c, 1, document(1))
		for _, view := range []string{
			`"look" AS SELECT "id", "doc" FROM "docs"`, `"renamed" AS SELECT "id" AS "i", "doc" AS "d" FROM "docs"`,
			`"computed" AS SELECT "id" AS "i", length("doc") AS "d" FROM "docs"`,
		} {
			b.direct().must(wire.Execute, 0x40, "CREATE VIEW "+view, 0x41, []any{})
		}
		c.must(wire.Eval, 0x27, "return 1", 0x21, []any{}) // the reply tells the gateway the new schema version
		for text, want := range statements {
			for _, typ := range []wire.Type{wire.Execute, wire.Prepare} {
				a := c.do(typ, 0x40, text, 0x41, []any{})
				if refused := a.code == wire.ErrorFlag|wire.ErrUnsupported; refused == want[mode] {
					t.Errorf("mode %d: %s: %#x %s", mode, text, a.code, a.text)
				}
				if a.code == wire.OK && typ == wire.Execute && strings.Contains(text, "1") && bytes.Contains(a.frame, magic) {
					t.Errorf("mode %d: %s: sealed bytes", mode, text)
				}
			}
		}
	}
}
