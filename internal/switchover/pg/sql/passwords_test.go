package sql

import (
	"strings"
	"testing"
)

func TestHidePasswords(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"SELECT 'password'", "SELECT 'password'"},
		{"INSERT INTO users (name, password) VALUES ('a', 'b')", "INSERT INTO users (name, password) VALUES ('a', 'b')"},
		{"ALTER ROLE app WITH ENCRYPTED PASSWORD 's3cret' VALID UNTIL '2030-01-01'", "ALTER ROLE app WITH ENCRYPTED PASSWORD 'xxxxxx' VALID UNTIL '2030-01-01'"},
		{"create user a password /* of 'a' */ E's\\'3'; select 1", "create user a password /* of 'a' */ E'xxxx'; select 1"},
		{"ALTER USER a PASSWORD $$s3cret$$", "ALTER USER a PASSWORD $$xxxxxx$$"},
		{"ALTER USER a PASSWORD $p$s3cret", "ALTER USER a PASSWORD $p$xxxxxx"},
		{"ALTER USER a PASSWORD 's3cret", "ALTER USER a PASSWORD 'xxxxxx"},
		{"CREATE USER MAPPING FOR a SERVER b OPTIONS (user 'c', password 's3cret')", "CREATE USER MAPPING FOR a SERVER b OPTIONS (user 'c', password 'xxxxxx')"},
		{"CREATE SUBSCRIPTION s CONNECTION 'host=h password=s3cret' PUBLICATION p", "CREATE SUBSCRIPTION s CONNECTION 'xxxxxxxxxxxxxxxxxxxxxx' PUBLICATION p"},
		{"DO $$BEGIN EXECUTE 'ALTER ROLE a PASSWORD ''s3cret'''; PERFORM 'kept'; END$$", "DO $$BEGIN EXECUTE '" + strings.Repeat("x", 32) + "'; PERFORM 'kept'; END$$"},
		{"ALTER ROLE a PASSWORD NULL", "ALTER ROLE a PASSWORD NULL"},
	} {
		if got := HidePasswords(c.text); got != c.want || len(got) != len(c.text) {
			t.Errorf("%s\nbecomes %s\n    not %s", c.text, got, c.want)
		}
	}
}

func FuzzHidePasswords(f *testing.F) {
	f.Add("ALTER ROLE a PASSWORD $p$x$p$ 'a' E'\\'' U&'b' -- password\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := HidePasswords(text); len(got) != len(text) {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
