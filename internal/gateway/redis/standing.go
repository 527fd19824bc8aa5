package redis

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// standing is what a conversation has come to: the server's answers change it, and the next requests
// depend on it.
type standing struct {
	version   atomic.Int32                // RESP 2 or 3
	channels  atomic.Int64                // subscriptions
	space     atomic.Pointer[string]      // the database, as the policy names it
	who       atomic.Pointer[credentials] // as whom the client has logged in
	loggingIn atomic.Int32                // logins without an answer yet
	door      gateway.Door                // that the client passes by logging in
	monitors  bool                        // MONITOR is on
	tx        *transaction
}

func (t *standing) init(tx *transaction, keeper *gateway.Doorkeeper) {
	t.tx = tx
	t.space.Store(&firstSpace)
	t.version.Store(2)
	t.door.Keeper = keeper
}

// firstSpace is where every connection begins.
var firstSpace = "0"

// credentials are what the client logged in with. They are kept for the second connection, for as long
// as the session lives.
type credentials struct{ user, password string }

// notSure is in place of a login while the answer to AUTH or HELLO is awaited, and others' commands
// may be behind it already. No user has such a name.
const notSure = "\x00"

// where is the database that the next request's values go to.
func (t *standing) where() string {
	if t.tx.space != nil {
		return *t.tx.space
	}
	return *t.space.Load()
}

// login is who writes what the request at hand brings, "" for the server's default user: dictionaries
// are made of, and for, the values of one.
func (t *standing) login() string {
	if t.loggingIn.Load() > 0 || t.tx.login {
		return notSure
	}
	who := t.who.Load()
	if who == nil || who.user == "default" {
		return ""
	}
	return who.user
}
