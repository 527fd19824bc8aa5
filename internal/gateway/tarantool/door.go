package tarantool

import (
	"context"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// A client that has not logged in is the user guest. As far as guest may do something its messages
// may be as long as anybody's: where it has more rights than a new server gives it, and on a
// connection on which it has written something.

// What guest has on a new server: the role public, and leave to connect.
const (
	privileges    = 313 // the space _vpriv, which everybody sees a part of
	guest         = 0
	mostOfGuest   = 100 // privileges that are looked at
	sessionRight  = 8
	usageRight    = 16
	publicRole    = 2
	privilegeType = 2 // fields of a privilege
	privilegeOf   = 3
	privilegeMask = 4
)

// guests are those of a server.
type guests struct{ upstream gateway.Upstream }

// AskClosed reports whether a server asks its clients for a login: its guest may do nothing.
func AskClosed(ctx context.Context, up gateway.Upstream) (closed bool, err error) {
	return guests{up}.askClosed(ctx)
}

// askClosed asks the server, as guest, what guest may do.
func (g guests) askClosed(ctx context.Context) (closed bool, err error) {
	err = g.upstream.Ask(ctx, func(c net.Conn) error {
		closed, err = askGuest(ctx, c)
		return err
	})
	return closed, err
}

func askGuest(ctx context.Context, c net.Conn) (closed bool, err error) {
	r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: ctx}}
	defer r.Free()
	if _, err = r.raw(wire.GreetingLen); err != nil {
		return false, err
	}
	if _, err = c.Write(wire.AppendSelect(nil, 1, privileges, guest, mostOfGuest)); err != nil {
		return false, err
	}
	f, err := r.next()
	if err != nil {
		return false, err
	}
	return guestIsNobody(f.body())
}

// guestIsNobody reads the answer to the question for guest's privileges. A guest who may not even
// ask may do nothing.
func guestIsNobody(reply []byte) (bool, error) {
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
	tuples, _, err := wire.Elements(nil, reply, b.Data.At, mostOfGuest)
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
		of, _ := wire.Uint(fields[privilegeOf].Of(reply))
		if (string(kind) != "role" || of != publicRole) && rights&^(sessionRight|usageRight) != 0 {
			return false, nil
		}
	}
	return true, nil
}

// opensDoor reports that a client for which the server has done that may do something.
func opensDoor(request wire.Type) bool {
	switch request {
	case wire.Auth, wire.Insert, wire.Replace, wire.Update, wire.Upsert, wire.Delete:
		return true
	}
	return false
}
