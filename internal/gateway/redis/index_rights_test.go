package redis

import "testing"

// Whose FT.CREATE the server refuses at once, since they are strangers, or it has no such command,
// doesn't have hashes put back or left plain; whether they may use MULTI or not.
func TestRefusedIndexesChangeNothing(t *testing.T) {
	const create = "FT.CREATE i ON HASH PREFIX 1 h: SCHEMA a TEXT"
	sock := startServer(t, "--requirepass", "secret")
	expect(t, clientOf(t, sock, as("", "secret")), "ACL SETUSER app on >pw ~* &* +@all -multi", "OK")
	front, g := startGateway(t, sock)
	for who, c := range map[string]struct{ user, password string }{
		"a stranger": {}, "another one": {"", "secret"}, "without MULTI": {"app", "pw"},
	} {
		expect(t, clientOf(t, front, as(c.user, c.password)), create, "error: ERR unknown command")
		g.indexes.mu.Lock()
		if n := len(g.indexes.announced) + len(g.indexes.sweeps); n != 0 {
			t.Errorf("%s: %v, %v", who, g.indexes.announced, g.indexes.sweeps)
		}
		g.indexes.mu.Unlock()
	}
}
