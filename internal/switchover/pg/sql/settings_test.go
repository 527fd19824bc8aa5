package sql

import (
	"slices"
	"testing"
)

func TestSettings(t *testing.T) {
	for text, want := range map[string][]string{
		"SET app.tenant = '5'": {"app.tenant"},
		"/* x */ set session \"App\".Tenant to 5; SET local a.b TO 1":    {"app.tenant", "a.b"},
		"SELECT set_config('app.user', $1, false), set_config('x','',t)": {"app.user"},
		"SELECT pg_catalog.set_config($1, $2, true)":                     {"?"},
		"SELECT set_config('a' || 'b', '', true)":                        {"?"},
		"SELECT set_config(E'a.b', '', true)":                            {"?"},
		"UPDATE t SET x = t.y":                                           {},
		"SET search_path = a.b":                                          {},
		"SET work_mem = '4MB'":                                           {},
		"SELECT 'set a.b = 5'":                                           {},
	} {
		names, all := Settings(text)
		if !all {
			names = append(names, "?")
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s sets %q, not %q", text, names, want)
		}
	}
}

func TestPrepares(t *testing.T) {
	for text, want := range map[string]string{
		"PREPARE a AS SELECT 1":              "a",
		"prepare \"A\"(int) as SELECT $1; ":  "A",
		"PREPARE a AS SELECT 1; SELECT 2":    "",
		"DELETE FROM t; PREPARE a AS SELECT": "",
		"PREPARE TRANSACTION 'x'":            "",
		"":                                   "",
	} {
		if name, ok := Prepares(text); name != want || ok != (want != "") {
			t.Errorf("%s prepares %q, %v", text, name, ok)
		}
	}
}
