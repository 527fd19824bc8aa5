package redis

import "time"

// An address may lead to another server from one moment to the next: a virtual IP, a name
// in DNS, a proxy, after a failover or a restored backup. Connections that were made before
// go on, or hang, with the old one. What the old one said it holds does not count for the
// new one, which may lack a dictionary that replication had not yet brought.
//
//	check    |--dial--ask--|            finds the dictionary in the server behind the address
//	client           |--dial--write--|  meets the same server: the check is no older than overlap
//
// So a value that is sent on a connection may name a dictionary only if a check that found
// it began after the connection was dialed, or a moment before: no failover is that fast
// without taking along what was stored. Connections ask for the check by Dialed; while many
// come and go, one check covers all within the overlap.

const overlap = 250 * time.Millisecond

// ConnMaxLifetime is what the Client of a Dicts needs in its options, where its address
// may lead to another server some day: checks then follow it there.
const ConnMaxLifetime = overlap

// ReadyOn is Ready for values that are sent on a connection that was dialed at a time, as
// taken before that.
func (r *readiness) ReadyOn(number uint32, dialed time.Time) bool {
	if r.kicks.Load() != r.checked.Load() {
		return false
	}
	until, ok := (*r.ready.Load())[number]
	if !ok || r.now() >= until {
		return false
	}
	at, lost, found := dialed.Sub(r.started), time.Duration(r.lost.Load()), until-r.lease
	return at <= found+overlap && (at < lost || lost <= found)
}

// Lost says that the server has ended a connection: it may start anew with less. New
// connections wait for a check; on those that live nothing changes. It does not block.
func (d *Dicts) Lost() {
	d.lost.Store(int64(d.now()))
	d.lookNow()
}

// Dialed says that a connection was made on which values may be sent, and has a check made
// at once unless there was one a moment ago. It does not block.
func (d *Dicts) Dialed() {
	if d.isOld() {
		d.lookNow()
	}
}

func (d *Dicts) lookNow() {
	select {
	case d.look <- struct{}{}:
	default:
	}
}
