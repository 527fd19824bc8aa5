package tarantool

import (
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Writers leaves out the store's own user, and guest as long as it may write nothing. Where users can't be listed, no
// writer is known.
func TestWriter(t *testing.T) {
	server := testenv.Tarantool(t, storeScript)
	guestConn := mustConnect(t, server.Addr, "", "")
	install(t, guestConn, InstallOptions{})
	expect := func(as, login string, one bool) {
		t.Helper()
		password := "pw"
		if as == "" {
			password = ""
		}
		c := mustConnect(t, server.Addr, as, password)
		defer c.Close()
		s := &Walk{masters: []*Store{{conn: c}}}
		if got, alone := s.Writers(t.Context()).Of("tree", nil); got != login || alone != one {
			t.Errorf("as %q: %q, %v; want %q, %v", as, got, alone, login, one)
		}
	}
	expect("", "", true)
	lua(t, guestConn, `box.session.su('admin', function()
		for _, name in ipairs{'root', 'cinch'} do box.schema.user.create(name, {password = 'pw'}) end
		box.schema.user.grant('root', 'super')
		box.schema.user.grant('cinch', 'read,write', 'space', 'tree')
		box.schema.user.grant('cinch', 'read', 'space', '_user')
		box.schema.user.grant('cinch', 'read', 'space', '_priv')
	end)`)
	root := mustConnect(t, server.Addr, "root", "pw")
	su := func(code string) { lua(t, root, "box.session.su('admin', function() "+code+" end)") }
	expect("cinch", "", false) // guest and root
	su(`box.schema.user.revoke('guest', 'super')`)
	expect("cinch", "root", true)
	expect("root", "cinch", true)
	su(`box.schema.user.grant('guest', 'write', 'space', 'tree')`)
	expect("cinch", "", false)
	su(`box.schema.user.revoke('guest', 'write', 'space', 'tree') box.schema.role.grant('public', 'write', 'space', 'tree')`)
	expect("cinch", "", false)
	su(`box.schema.role.revoke('public', 'write', 'space', 'tree') box.schema.role.grant('public', 'read', 'space', 'tree')`)
	expect("cinch", "root", true)
	su(`box.schema.user.revoke('cinch', 'read', 'space', '_priv')`)
	expect("cinch", "", false)
	su(`box.schema.user.grant('cinch', 'read', 'space', '_priv') box.schema.user.create('tenant')`)
	expect("cinch", "root", true) // tenant may write nothing
	su(`box.schema.user.grant('tenant', 'write', 'space', 'tree')`)
	expect("cinch", "", false)
	su(`box.schema.user.revoke('tenant', 'write', 'space', 'tree')
		box.schema.role.create('writers') box.schema.role.grant('writers', 'write', 'space', 'tree') box.schema.user.grant('tenant', 'writers')`)
	expect("cinch", "", false)
	su(`box.schema.role.revoke('writers', 'write', 'space', 'tree') box.schema.func.create('f') box.schema.user.grant('tenant', 'execute', 'function', 'f')`)
	expect("cinch", "", false) // whatever f writes
	su(`box.schema.user.revoke('tenant', 'execute', 'function', 'f')`)
	expect("cinch", "root", true)
	su(`box.schema.role.grant('public', 'execute', 'function', 'f')`)
	expect("cinch", "", false)
	su(`box.schema.role.revoke('public', 'execute', 'function', 'f') box.schema.role.grant('public', 'execute', 'function')`)
	expect("cinch", "", false)
	su(`box.schema.role.revoke('public', 'execute', 'function')`)
	expect("cinch", "root", true)
	su(`box.schema.user.revoke('root', 'super') box.schema.user.grant('tenant', 'write', 'space', 'tree')`)
	expect("cinch", "tenant", true)
}
