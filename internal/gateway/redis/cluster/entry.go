package cluster

import "sync"

// entrySessions are those of clients that have connected to the entry.
type entrySessions struct {
	mu  sync.Mutex
	all map[*entrySession]struct{}
}

type entrySession struct {
	Session
	member *member
	of     *entrySessions
}

func (e *entrySessions) add(m *member, s Session) *entrySession {
	x := &entrySession{Session: s, member: m, of: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[*entrySession]struct{}{}
	}
	e.all[x] = struct{}{}
	return x
}

// Run is that of the session.
func (x *entrySession) Run() {
	defer func() {
		x.of.mu.Lock()
		defer x.of.mu.Unlock()
		delete(x.of.all, x)
	}()
	x.Session.Run()
}

// cut ends the sessions whose members are so.
func (e *entrySessions) cut(is func(*member) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for x := range e.all {
		if is(x.member) {
			_ = x.Close() // the clients connect again, to the primary
		}
	}
}
