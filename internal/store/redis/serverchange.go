package redis

import "time"

// An address may come to lead to another server: a virtual IP, a DNS name or a proxy, after a failover or a
// restored backup. Existing connections stay, or hang, with the old server. What the old server holds says
// nothing about the new one, which may lack a dictionary that replication had not yet delivered.
//
//	check    |--dial--ask--|            finds the dictionary in the server behind the address
//	client           |--dial--write--|  meets the same server: the check is no older than overlap
//
// So a value on a connection may name a dictionary only if the check that found it began after the connection was
// dialed, or at most overlap before: no failover that loses stored data is that fast. A new connection requests a
// check by Dialed; when many are opened, one check covers all within overlap.

const overlap = 250 * time.Millisecond

// ConnMaxLifetime must be set on the Client of a Dicts if its address may ever lead to another server: checks
// then follow it there.
const ConnMaxLifetime = overlap

// ReadyOn is Ready for values sent on one connection. dialed is a time taken before the connection was
// dialed.
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

// Lost records that the server has closed a connection: it may restart with fewer dictionaries. New
// connections wait for a check; existing ones are not affected. It does not block.
func (d *Dicts) Lost() {
	d.lost.Store(int64(d.now()))
	d.requestCheck()
}

// Dialed records that a connection for values was opened, and requests a check unless there was one a moment
// ago. It does not block.
func (d *Dicts) Dialed() {
	if d.isStale() {
		d.requestCheck()
	}
}

func (d *Dicts) requestCheck() {
	select {
	case d.checkNow <- struct{}{}:
	default:
	}
}
