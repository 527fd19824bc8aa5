package rollout

import "testing"

// A URL may have the host, the port and the user as parameters, as for a server that listens on a socket only.
func TestLocationOfNode(t *testing.T) {
	for url, want := range map[string]struct{ conninfo, server string }{
		"postgres://u@db1/app":                                {"host='db1' port='5432' application_name='cinch_a2' user='u' sslmode=require", "db1:5432"},
		"postgres://u@[::1]:5433/app":                         {"host='::1' port='5433' application_name='cinch_a2' user='u' sslmode=require", "[::1]:5433"},
		"postgres://u@/app?host=/run/postgresql&port=5433":    {"host='/run/postgresql' port='5433' application_name='cinch_a2' user='u' sslmode=require", "unix:/run/postgresql/.s.PGSQL.5433"},
		"postgres:///app?host=%2Frun%2Fpostgresql&user=admin": {"host='/run/postgresql' port='5432' application_name='cinch_a2' user='admin' sslmode=require", "unix:/run/postgresql/.s.PGSQL.5432"},
		"postgres://u@db1:1/app?host=db2&port=5433":           {"host='db2' port='5433' application_name='cinch_a2' user='u' sslmode=require", "db2:5433"},
	} {
		n := &Node{Name: "a", URL: url}
		if got := n.conninfo(&Node{Name: "a2"}, "sslmode=require"); got != want.conninfo {
			t.Errorf("%s: its followers connect with %s, not %s", url, got, want.conninfo)
		}
		if got := n.server(); got != want.server {
			t.Errorf("%s: its server is %s, not %s", url, got, want.server)
		}
	}
}
