package redis

import (
	"context"
	"errors"
	"strings"
)

// maxCheck is up to how many bytes of arguments a request is sent to be checked.
const maxCheck = 1 << 20

// refuseFor refuses the request at hand for what was found at its keys. The gateway may have looked there
// by its own rights, so a user who may not run the request there hears what the server says to that,
// and not what the keys hold.
func (s *session) refuseFor(text string) error {
	if said := s.forbidden(); said != "" {
		text = said
	}
	return s.refuse(text)
}

// forbidden is how the server refuses the request at hand to a user who may not run it on its keys, "" where
// it does not. It is asked on the second connection, in a transaction that is discarded: there a
// request is checked when it is queued, and never run.
func (s *session) forbidden() string {
	if err := s.queued(); err != nil && isNoRight(err.Error()) {
		return err.Error()
	}
	return ""
}

// refusedAtOnce reports that the server would not begin to carry out the request at hand: the client has
// to log in first, may not run it, or there is no such command.
func (s *session) refusedAtOnce() bool {
	err := s.queued()
	if errors.Is(err, errNoMulti) { // a module checks arguments itself, behind the check of rights: the bare name is never run
		ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
		defer cancel()
		err = s.beside().Do(ctx, s.req.args[0]).Err()
	}
	return err != nil && (isNoRight(err.Error()) || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "ERR unknown command"))
}

// errNoMulti reports that the client has no right to MULTI.
var errNoMulti = errors.New("redis: the user may not begin a transaction")

// queued is how the server answers to the request at hand in a transaction that is discarded. Where
// that could not be found out it is nil, or another error than the server has for a request.
func (s *session) queued() error {
	size, args := 0, make([]any, len(s.req.args))
	for i, a := range s.req.args {
		size, args[i] = size+len(a), a
	}
	if size > maxCheck || len(args) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
	defer cancel()
	conn := s.beside().Conn()
	defer conn.Close()
	if err := conn.Do(ctx, "MULTI").Err(); err != nil { // without MULTI it would be run
		if isNoRight(err.Error()) { // of MULTI, and not of the request
			return errNoMulti
		}
		return err
	}
	err := conn.Do(ctx, args...).Err()
	_ = conn.Do(ctx, "DISCARD").Err()
	return err
}
