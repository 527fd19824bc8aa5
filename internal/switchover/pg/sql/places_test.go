package sql

import (
	"fmt"
	"strings"
	"testing"
)

func TestPlaces(t *testing.T) {
	for text, want := range map[string]Place{
		"SELECT x FROM t":                                                     Listed,
		"SELECT t.x AS y FROM t":                                              Listed,
		"SELECT lower(x) FROM t":                                              Listed,
		"SELECT a FROM t ORDER BY x":                                          Ordering,
		"SELECT a FROM t WHERE x > 1":                                         Choosing,
		"SELECT a FROM t WHERE b IN (SELECT x FROM u)":                        Choosing,
		"SELECT a FROM (SELECT x AS a FROM t) AS s":                           Listed,
		"SELECT a FROM t JOIN u ON t.x = u.a ORDER BY a":                      Choosing,
		"SELECT count(*) FROM t GROUP BY date(x)":                             Choosing,
		"INSERT INTO t (a) VALUES (1) RETURNING x":                            Listed,
		"UPDATE t SET x = 1 WHERE a = 2":                                      Listed,
		"DELETE FROM t WHERE a = 1 AND x < 5":                                 Choosing,
		"SELECT x, a FROM t WHERE a = 1 ORDER BY x":                           Listed | Ordering,
		"WITH c AS (SELECT a, x FROM t WHERE a = 1) SELECT a FROM c LIMIT 10": Listed,
		"SELECT a FROM x":                                                     Named,
	} {
		if got := Analyze(text, functions).Words["x"]; got != want {
			t.Errorf("%s: %b, not %b", text, got, want)
		}
	}
	s := Analyze("SELECT row_to_json(u), t.a FROM t u JOIN (SELECT 1) AS v ON true", functions)
	if s.Aliases["u"] != "t" || s.Words["u"] != Listed|Named || s.Words["t"] != Named|Qualifying {
		t.Errorf("%v %v", s.Aliases, s.Words)
	}
	if of, known := s.Aliases["v"]; !known || of != "" {
		t.Errorf("%v", s.Aliases)
	}
}

func TestTables(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT a FROM t, s.u AS x JOIN v ON t.a = v.a WHERE a IN (SELECT b FROM w)": "t u v w",
		"SELECT * FROM generate_series(1, 3) AS i, t":                                "t",
		"INSERT INTO s.t (a, b) VALUES (1, 2)":                                       "t",
		"UPDATE t SET a = 1 FROM \"U\" WHERE a = b":                                  "t U",
		"COPY t TO STDOUT": "t",
		"SELECT 1, now()":  "",
	} {
		if got := strings.Join(Analyze(text, functions).Tables, " "); got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
}

func TestSequence(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT nextval('s')":                               "s",
		"select NEXTVAL ( 'public.\"it''s\"'::regclass)":    `public."it's"`,
		"INSERT INTO t VALUES (nextval('a'), nextval('b'))": "",
		"SELECT nextval($1)":                                "",
		"SELECT 'nextval(''s'')'":                           "",
	} {
		if got := Analyze(text, functions).Sequence; got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
}

func TestSets(t *testing.T) {
	for text, want := range map[string]string{
		"INSERT INTO t (a, b) VALUES ($1, now())":                                                                     "t.b",
		"INSERT INTO s.t (a, b) VALUES (1, 2), (random(), 3) RETURNING now()":                                         "t.a",
		"INSERT INTO t VALUES (1, current_timestamp)":                                                                 "t.2",
		"INSERT INTO t (a, b) SELECT a, now() FROM u":                                                                 "t.b",
		"INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = now(), c = 1 WHERE 1=1":                       "t.b",
		"UPDATE t SET a = 1, b = now() WHERE c = now()":                                                               "t.b",
		"UPDATE ONLY s.t AS x SET (a, b) = (1, now())":                                                                "t.a t.b",
		"UPDATE t SET a = age, b = version":                                                                           "",
		"WITH x AS (UPDATE t SET a = now() RETURNING *) SELECT * FROM x":                                              "t.a",
		"SELECT a FROM t FOR UPDATE":                                                                                  "",
		"CREATE TABLE IF NOT EXISTS s.t (a serial DEFAULT nextval('x'), b timestamptz NOT NULL DEFAULT now(), c int)": "t.b",
		"CREATE TEMP TABLE t (a uuid PRIMARY KEY DEFAULT random())":                                                   "t.a",
		"ALTER TABLE t ADD COLUMN IF NOT EXISTS a timestamptz DEFAULT now(), ALTER b SET DEFAULT random(), DROP c":    "t.a t.b",
		"CREATE INDEX i ON t (a)":                                                                                     "",
		"INSERT INTO":                                                                                                 "",
		"UPDATE":                                                                                                      "",
	} {
		var got []string
		for _, s := range Analyze(text, functions).Sets {
			got = append(got, s.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, not %s", text, got, want)
		}
	}
	if got := fmt.Sprint(Assigned("BEGIN IF x THEN NEW.a := now(); END IF; NEW.b = 1; new.c = clock_timestamp(); RETURN NEW; END", functions)); got != "[a c]" {
		t.Error(got)
	}
}
