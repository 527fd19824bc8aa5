package redis

import (
	"net"
	"strconv"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// credentials are what the client logged in with. They are kept for the second
// connection (aux.go), for as long as the session lives.
type credentials struct{ user, password string }

// auth watches AUTH [user] password.
func (s *session) auth(r *request) error {
	var who *credentials
	switch len(r.args) {
	case 2:
		who = &credentials{password: string(r.args[1])}
	case 3:
		who = &credentials{string(r.args[1]), string(r.args[2])}
	}
	s.forgetRights()
	s.tx.login = s.tx.open
	s.loggingIn.Add(1)
	return s.forward(r, entry{kind: kindHook, op: &op{after: func(a answer) {
		if !a.isError() {
			s.who.Store(who)
			s.door.Pass()
		}
		s.loggingIn.Add(-1)
	}}})
}

func (s *session) forgetRights() {
	s.lua, s.units = luaRights{}, unitRights{}
	s.aux.close()
	s.aux = nil
}

// hello watches HELLO [version [AUTH user password] [SETNAME name]].
func (s *session) hello(r *request) error {
	who := helloCredentials(r.args)
	if who != nil {
		s.forgetRights()
	}
	if s.tx.open {
		s.tx.changes, s.tx.login = true, s.tx.login || who != nil
	}
	return s.forwardAndWait(r, &op{after: func(a answer) {
		switch a.head {
		case resp.Map:
			s.version.Store(3)
		case resp.Array:
			s.version.Store(2)
		}
		if a.isError() {
			return
		}
		s.door.Pass() // strangers are refused, whatever else they ask for in it
		if who != nil {
			s.who.Store(who)
		}
	}})
}

// helloCredentials are the last that HELLO names, as for the server; nil for none, or where the
// server refuses it all.
func helloCredentials(args [][]byte) (who *credentials) {
	for i := 2; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "auth") && i+2 < len(args):
			who = &credentials{string(args[i+1]), string(args[i+2])}
			i += 2
		case resp.IsWord(args[i], "setname") && i+1 < len(args):
			i++
		default:
			return nil
		}
	}
	return who
}

// forwardAndWait sends a request after which the version of the protocol may be another:
// how the next one is sent depends on it.
func (s *session) forwardAndWait(r *request, o *op) error {
	if !s.tx.open {
		o.done = make(chan struct{})
	}
	if err := s.forward(r, entry{kind: kindHook, op: o}); err != nil || o.done == nil {
		return err
	}
	return s.await(o)
}

// selectDB waits for the answer: where the next request's values go depends on it. Inside
// MULTI it counts from EXEC on, and before for what is queued behind it.
func (s *session) selectDB(r *request) error {
	space := string(r.args[1])
	if n, ok := resp.ParseInt(r.args[1]); !ok || n < 0 {
		return s.forward(r, entry{})
	}
	err := s.forwardAndWait(r, &op{after: func(a answer) {
		if !a.isError() {
			s.space.Store(&space)
		}
	}})
	if s.tx.open {
		s.tx.space, s.tx.changes, s.tx.brings = &space, true, true // the transaction goes on with other keys
	}
	return err
}

// where is the database that the next request's values go to.
func (s *session) where() string {
	if s.tx.space != nil {
		return *s.tx.space
	}
	return *s.space.Load()
}

// client handles CLIENT REPLY itself: it drops the replies that the client does not want.
func (s *session) client(r *request) error {
	if len(r.args) > 2 && resp.IsWord(r.args[1], "tracking") {
		s.tracking = resp.IsWord(r.args[2], "on")
	}
	if resp.IsWord(r.args[1], "capa") {
		return s.capabilities(r)
	}
	if len(r.args) != 3 || !resp.IsWord(r.args[1], "reply") || s.subscribed() { // to a subscriber the server refuses it
		return s.forward(r, entry{})
	}
	if s.tx.open {
		return s.refuse("ERR cinch: CLIENT REPLY inside MULTI is not supported")
	}
	switch {
	case resp.IsWord(r.args[2], "off"):
		s.replies.off = true
		return nil
	case resp.IsWord(r.args[2], "skip"):
		s.replies.skipNext = !s.replies.off
		return nil
	case resp.IsWord(r.args[2], "on"):
		s.replies = muting{}
	}
	return s.forward(r, entry{})
}

func (s *session) quit(r *request) error {
	s.endTransaction()
	s.ended.Store(true)
	return s.forward(r, entry{})
}

// reset brings the connection back to its first state.
func (s *session) reset(r *request) error {
	s.endTransaction()
	s.endWatch()
	s.monitors = false
	s.replies = muting{skip: s.replies.skip} // RESET ends OFF, but a SKIP before it covers its answer
	s.tracking = false
	s.setReadOnly(false)
	s.forgetRights()
	s.space.Store(&firstSpace)
	return s.forwardAndWait(r, &op{after: func(a answer) {
		if a.isError() {
			return
		}
		p := &s.out
		p.tx, p.monitoring = nil, false
		p.subs, p.patterns, p.shards = 0, 0, 0
		s.channels.Store(0)
		s.version.Store(2)
		s.who.Store(nil)
		s.door.Shut()
	}})
}

func (s *session) subscribe(r *request) error {
	s.subscribing = !s.tx.open
	s.tx.changes = s.tx.open
	return s.forward(r, entry{kind: kindSubscribe, op: &op{acks: len(r.args) - 1}})
}

func (s *session) unsubscribe(r *request) error {
	if len(r.args) > 1 {
		return s.forward(r, entry{kind: kindSubscribe, op: &op{acks: len(r.args) - 1}})
	}
	return s.forward(r, entry{kind: kindUnsubscribe, op: &op{class: r.args[0][0] | 0x20}})
}

// monitor: from its answer on, lines come that nobody asked for. Once there are, the server
// says nothing to another MONITOR.
func (s *session) monitor(r *request) error {
	if s.monitors && !s.tx.open {
		return nil
	}
	o := &op{}
	o.after = func(a answer) {
		s.out.monitoring = s.out.monitoring || !a.isError()
		o.answer.head = a.head
	}
	err := s.forwardAndWait(r, o)
	s.monitors = s.monitors || err == nil && o.done != nil && !o.answer.isError()
	return err
}

// replconf: to what replicas tell of their progress the server says nothing.
func (s *session) replconf(r *request) error {
	for i := 1; i < len(r.args) && len(r.args)%2 == 1; i += 2 {
		switch {
		case !resp.IsWord(r.args[i], "ack") && !resp.IsWord(r.args[i], "getack"):
		case i > 1 || s.tx.open:
			return s.refuse("ERR cinch: REPLCONF ACK and GETACK have no reply, so they come by themselves")
		default:
			return nil
		}
	}
	return s.forward(r, entry{})
}

// replicate hands the connection over, unless the server refuses: a replica must see what
// is stored.
func (s *session) replicate(r *request) error {
	switch {
	case s.tx.open:
		return s.forward(r, entry{}) // refused
	case s.monitors:
		return nil // by the server, too
	}
	o := &op{done: make(chan struct{})}
	if err := s.forward(r, entry{kind: kindRaw, op: o}); err != nil {
		return err
	}
	if err := s.await(o); err != nil || o.answer.isError() {
		return err
	}
	if err := s.up.write(s.in.Buffered()[s.frame:]); err != nil {
		return err
	}
	s.in.Discard(len(s.in.Buffered()))
	if err := s.passRaw(); err != nil {
		return err
	}
	return net.ErrClosed
}

// flush watches the commands that may remove dictionaries or search indexes.
func (s *session) flush(r *request) error {
	return s.forward(r, entry{kind: kindHook, op: &op{after: func(answer) {
		s.g.indexes.kick()
		if s.g.cfg.Dicts != nil {
			s.g.cfg.Dicts.Kick()
		}
	}}})
}

func (s *session) command(r *request) error {
	if s.g.cfg.NoCommandDocs && len(r.args) > 1 && resp.IsWord(r.args[1], "docs") {
		return s.refuse("ERR unknown subcommand 'DOCS'")
	}
	return s.forward(r, entry{})
}

func itoa(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
