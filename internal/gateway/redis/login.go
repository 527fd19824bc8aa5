package redis

// notSure is in place of a login while the answer to AUTH or HELLO is awaited, and others' commands
// may be behind it already. No user has such a name.
const notSure = "\x00"

// login is who writes what the request at hand brings, "" for the server's default user: dictionaries
// are made of, and for, the values of one.
func (s *session) login() string {
	if s.loggingIn.Load() > 0 || s.tx.login {
		return notSure
	}
	who := s.who.Load()
	if who == nil || who.user == "default" {
		return ""
	}
	return who.user
}

// isStranger reports whether the client must log in before its long requests are looked into. One
// that has sent its login is not taken for a stranger before the answer has come: the server may
// carry out what is behind it.
func (s *session) isStranger() bool {
	switch {
	case !s.door.Stranger(s.ctx):
		return false
	case s.loggingIn.Load() == 0 || !s.settle():
		return true
	}
	return s.door.Stranger(s.ctx)
}
