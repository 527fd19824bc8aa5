package sql

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT  *\nFROM t WHERE id = 5":                                "select * from t where id = ?",
		"select * from t where id = $1 -- why":                          "select * from t where id = ?",
		"SELECT a FROM t WHERE id IN (1, 2,3)":                          "select a from t where id in (?)",
		"INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y;'), ($1, E'\\'')": "insert into t(a, b) values (?)",
		"/* a /* b */ c */ UPDATE t SET a = a - 1, b = -1":              "update t set a = a - ?, b = ?",
		`SELECT "Name"."x" FROM $q$ it's; $q$`:                          `select "Name"."x" from ?`,
		"SELECT 1.5e-3, .5, 0x1f, 1_000":                                "select ?",
		"SELECT a::int FROM t WHERE b >= 1 AND c->>'x' = 'y'":           "select a::int from t where b >= ? and c ->> ? = ?",
		"COMMIT": "commit",
		"":       "",
	} {
		if got := Analyze(text, nil).Name; got != want {
			t.Errorf("%s\n is %q\n not %q", text, got, want)
		}
	}
	long := "SELECT " + strings.Repeat("a, ", 200)
	if a, b := Analyze(long+"x", nil).Name, Analyze(long+"y", nil).Name; a == b || len(a) > 200 {
		t.Errorf("long names: %q, %q", a, b)
	}
}

var functions = Functions{"count": Stable, "lower": Stable, "now": Stable, "random": Volatile, "nextval": Volatile, "pg_advisory_lock": Volatile}

func TestLeaves(t *testing.T) {
	for text, want := range map[string]bool{
		"COPY t TO '/tmp/x'": true,
		"copy public.t (a, \"to\") to E'/tmp/\\x' WITH (FORMAT csv)":       true,
		"COPY (SELECT a FROM t WHERE b = 'to') TO PROGRAM 'gzip > x.gz'":   true,
		"COPY t TO $$/tmp/x$$; COPY t TO '/tmp/y'":                         true,
		"SELECT lo_export(loid, '/tmp/x') FROM images":                     true,
		"SELECT count(lo_export(loid, '/tmp/x')), lower(name) FROM images": true,
		"COPY t TO STDOUT":                                                                 false,
		"COPY t FROM '/tmp/x'":                                                             false,
		"COPY t FROM PROGRAM 'cat /tmp/x'":                                                 false,
		"COPY (DELETE FROM t RETURNING *) TO '/tmp/x'":                                     false,
		"COPY t TO '/tmp/x'; INSERT INTO t VALUES (1)":                                     false,
		"SELECT lo_export(loid, '/tmp/x'), nextval('s') FROM images":                       false,
		"WITH x AS (DELETE FROM t RETURNING loid) SELECT lo_export(loid, '/tmp/x') FROM x": false,
		"SELECT 'lo_export(1)'":                                                            false,
		"SELECT 1":                                                                         false,
		"COPY":                                                                             false,
		";":                                                                                false,
		"":                                                                                 false,
	} {
		if got := Analyze(text, functions).WritesFiles; got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestEffect(t *testing.T) {
	for text, want := range map[string]Effect{
		"SELECT count(*) FROM t":                                     Reads,
		"(SELECT 1) UNION (SELECT 2)":                                Reads,
		"WITH x AS (SELECT 1) SELECT lower(a) FROM x WHERE a IN (1)": Reads,
		"SELECT 1; SELECT 2":                                         Reads,
		"VALUES (1)":                                                 Reads,
		"EXPLAIN SELECT 1":                                           Reads,
		"SELECT 'insert into t'":                                     Reads,
		"SELECT * FROM t FOR UPDATE":                                 Writes,
		"SELECT * FROM t FOR NO KEY UPDATE SKIP LOCKED":              Writes,
		"SELECT nextval('s')":                                        Writes,
		"SELECT myfunction()":                                        Writes,
		`SELECT "Count"(1)`:                                          Writes,
		"SELECT * INTO u FROM t":                                     Writes,
		"WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x":      Writes,
		"EXPLAIN ANALYZE SELECT 1":                                   Writes,
		"SELECT pg_advisory_lock(1)":                                 Writes,
		"SELECT 1; COMMIT":                                           Writes,
		"BEGIN":                                                      Session,
		"SET x = 1":                                                  Session,
		"":                                                           Session,
		"ROLLBACK":                                                   Writes,
		"COPY t FROM STDIN":                                          Writes,
		"PREPARE TRANSACTION 'x'":                                    Writes,
		"FETCH 5 FROM c":                                             Writes,
	} {
		if got := Analyze(text, functions).Effect; got != want {
			t.Errorf("%s: %d, not %d", text, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for text, want := range map[string][3]bool{ // ordered, nondeterministic, arbitrary rows
		"SELECT * FROM t":                                    {},
		"SELECT * FROM t ORDER BY a LIMIT 1":                 {true, false, false},
		"SELECT * FROM (SELECT * FROM t ORDER BY a) AS x":    {},
		"SELECT * FROM t LIMIT 1":                            {false, false, true},
		"SELECT now()":                                       {false, true, false},
		"INSERT INTO t VALUES (random()) RETURNING a":        {false, true, false},
		"SELECT nextval('s')":                                {},
		"SELECT * FROM pg_stat_activity":                     {false, true, false},
		"INSERT INTO t SELECT a FROM u LIMIT 1":              {},
		"SELECT array(SELECT a FROM t LIMIT 1) FROM u":       {},
		"UPDATE t SET at = CURRENT_TIMESTAMP WHERE id = $1":  {false, true, false},
		"SELECT a FROM t WHERE note = 'now() is the moment'": {},
	} {
		s := Analyze(text, functions)
		if got := [3]bool{s.Ordered, s.Nondeterministic, s.ArbitraryRows}; got != want {
			t.Errorf("%s: %v, not %v", text, got, want)
		}
	}
}

// For any input the scanner ends, and the statement's name is not too long.
func FuzzLook(f *testing.F) {
	f.Add("SELECT $1, 'a''b', $x$ $x$, E'\\'', \"q\", 1.5e5 /* */ -- x")
	f.Fuzz(func(t *testing.T, text string) {
		s := Analyze(text, functions)
		if len(s.Name) > maxNameBytes+16 {
			t.Errorf("a name of %d bytes", len(s.Name))
		}
	})
}
