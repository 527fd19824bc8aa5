package tarantool

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// loginPending is the result of identity.login while the reply to an AUTH is outstanding.
const loginPending = gateway.LoginUnknown

// identity records the user that a client has logged in as, because a dictionary is trained with, and used for, the
// values of one user only. It also opens door, which limits the client's messages until it has logged in.
type identity struct {
	door    gateway.AuthGate
	user    atomic.Pointer[string] // nil: the client is guest
	pending atomic.Int32           // number of pendingLogins

	mu            sync.Mutex
	pendingLogins []pendingLogin // in their order
}

// pendingLogin is an AUTH without a reply.
type pendingLogin struct {
	sync uint64
	user string
}

// login returns the user whose values a request writes now, "" for guest.
func (l *identity) login() string {
	if l.pending.Load() > 0 {
		return loginPending
	}
	if who := l.user.Load(); who != nil && *who != "guest" {
		return *who
	}
	return ""
}

// recordLogin records an AUTH that is about to be sent.
func (l *identity) recordLogin(sync uint64, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pendingLogins = append(l.pendingLogins, pendingLogin{sync, user})
	l.pending.Add(1)
}

// recordReply records the reply to a request.
func (l *identity) recordReply(request wire.Type, sync uint64, answer wire.Type) {
	switch request {
	case wire.Auth, wire.Insert, wire.Replace, wire.Update, wire.Upsert, wire.Delete:
		if answer == wire.OK { // the server let the client log in or write, so the client has rights
			l.door.Open()
		}
	}
	if request == wire.Auth {
		l.recordLoginReply(sync, answer)
	}
}

// recordLoginReply records the reply to an AUTH. If the server has refused the login, the user stays the same.
func (l *identity) recordLoginReply(sync uint64, answer wire.Type) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.pendingLogins {
		if l.pendingLogins[i].sync != sync {
			continue
		}
		if user := l.pendingLogins[i].user; answer == wire.OK {
			l.user.Store(&user)
		}
		l.pendingLogins = append(l.pendingLogins[:i], l.pendingLogins[i+1:]...)
		l.pending.Add(-1)
		return
	}
}

// A client that has not logged in is the user guest. Its messages are not limited if guest has more rights than on a
// new server, or after the client has written something on the connection.

// On a new server guest has the role public and the right to connect (sessionRight, usageRight). Its privileges are
// tuples of the space _vpriv.
const (
	privilegesSpace = 313 // number of _vpriv, in which each user sees its own privileges
	guestUser       = 0
	maxPrivileges   = 100 // limit on the privileges that are read
	sessionRight    = 8
	usageRight      = 16
	publicRole      = 2
	privilegeType   = 2 // positions of fields in a tuple, from 0
	privilegeObject = 3
	privilegeMask   = 4
)

// RequiresLogin reports whether a server requires a login: whether guest has no more rights than on a new server. It
// connects as guest and reads guest's privileges.
func RequiresLogin(ctx context.Context, up endpoint.Upstream) (required bool, err error) {
	err = up.WithConn(ctx, func(c net.Conn) error {
		required, err = askGuest(ctx, c)
		return err
	})
	return required, err
}

func askGuest(ctx context.Context, c net.Conn) (required bool, err error) {
	r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: ctx}}
	defer r.Free()
	if _, err = r.raw(wire.GreetingLen); err != nil {
		return false, err
	}
	if _, err = c.Write(wire.AppendSelect(nil, 1, privilegesSpace, guestUser, maxPrivileges)); err != nil {
		return false, err
	}
	f, err := r.next()
	if err != nil {
		return false, err
	}
	return guestHasNoRights(f.body())
}

// guestHasNoRights reports whether guest has no more rights than on a new server, by the reply to askGuest's request.
// If guest may not even read its privileges, it has none.
func guestHasNoRights(reply []byte) (bool, error) {
	var h wire.Header
	if err := h.Parse(reply); err != nil {
		return false, err
	}
	if h.Type != wire.OK {
		return true, nil
	}
	var b wire.Body
	if err := b.Parse(reply, h.Map.End()); err != nil {
		return false, err
	}
	tuples, _, err := wire.Elements(nil, reply, b.Data.At, maxPrivileges)
	if err != nil {
		return false, err
	}
	for _, t := range tuples {
		fields, _, err := wire.Elements(nil, reply, t.At, privilegeMask+1)
		if err != nil || len(fields) <= privilegeMask {
			return false, err
		}
		kind, _ := wire.Text(fields[privilegeType].Of(reply))
		rights, _ := wire.Uint(fields[privilegeMask].Of(reply))
		of, _ := wire.Uint(fields[privilegeObject].Of(reply))
		if (string(kind) != "role" || of != publicRole) && rights&^(sessionRight|usageRight) != 0 {
			return false, nil
		}
	}
	return true, nil
}
