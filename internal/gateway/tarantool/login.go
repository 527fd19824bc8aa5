package tarantool

import (
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// notSure is in place of a login whose answer is awaited.
const notSure = gateway.LoginUnknown

// identity knows as whom a client has logged in, and lets it in at the door. Dictionaries are made of, and for, the values of one user.
type identity struct {
	door     *gateway.Door
	who      atomic.Pointer[string] // nil: the client is guest
	awaiting atomic.Int32           // AUTHs without an answer

	mu   sync.Mutex
	sent []login // in their order
}

// login is an AUTH without an answer.
type login struct {
	sync uint64
	user string
}

// login is who writes what the request at hand brings, "" for guest.
func (l *identity) login() string {
	if l.awaiting.Load() > 0 {
		return notSure
	}
	if who := l.who.Load(); who != nil && *who != "guest" {
		return *who
	}
	return ""
}

// asked notes an AUTH that is about to be sent.
func (l *identity) asked(sync uint64, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, login{sync, user})
	l.awaiting.Add(1)
}

// answered takes the answer to a request.
func (l *identity) answered(request wire.Type, sync uint64, answer wire.Type) {
	if answer == wire.OK && opensDoor(request) {
		l.door.Pass()
	}
	if request == wire.Auth {
		l.loggedIn(sync, answer)
	}
}

// loggedIn takes the answer to an AUTH. A refused one leaves the user who was before.
func (l *identity) loggedIn(sync uint64, answer wire.Type) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.sent {
		if l.sent[i].sync != sync {
			continue
		}
		if user := l.sent[i].user; answer == wire.OK {
			l.who.Store(&user)
		}
		l.sent = append(l.sent[:i], l.sent[i+1:]...)
		l.awaiting.Add(-1)
		return
	}
}
