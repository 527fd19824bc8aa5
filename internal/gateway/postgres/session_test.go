package postgres

import (
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// Names that the client made up are found in each message that has a text, whatever surrounds the text.
func TestNamesInMessages(t *testing.T) {
	parse := func(name, text string, types ...uint32) []byte {
		return appendParse(nil, statement{name: name, text: text, types: types})
	}
	for name, one := range map[string]struct {
		message []byte
		names   []string
		more    bool
	}{
		"query":                      {pg.AppendQuery(nil, "SET app.a = '1'"), []string{"app.a"}, false},
		"unnamed statement":          {parse("", "SET app.a = '1'"), []string{"app.a"}, false},
		"named statement":            {parse("s1", "SET app.a = '1'"), []string{"app.a"}, false},
		"named statement, call":      {parse("s1", "SELECT set_config('app.a', $1, false)", textType), []string{"app.a"}, false},
		"named statement, parameter": {parse("s1", "SELECT set_config($1, $2, false)", textType, textType), nil, true},
		"a quote in the name":        {parse("it's", "SET app.a = '1'"), []string{"app.a"}, false},
		"SET in the name":            {parse("SET app.b = '1'", "SELECT 1"), nil, false},
		"text in the types":          {parse("", "SELECT 1", 0x3b534554, 0x20612e62, 0x3d313b00), nil, false}, // ";SET a.b=1;"
	} {
		cut := pg.Cutter{Read: &requestTypes, Most: mostRead}
		p, ok, err := cut.Next(one.message)
		if !ok || err != nil {
			t.Fatal(name, ok, err)
		}
		s := &session{}
		s.read(p)
		if !slices.Equal(s.made.names, one.names) || s.made.more != one.more {
			t.Errorf("%s: %q, more: %t", name, s.made.names, s.made.more)
		}
	}
}
