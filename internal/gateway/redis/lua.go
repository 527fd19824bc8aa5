package redis

import (
	"context"
	"strings"
)

// luaRights is what is known of scripts on this connection, for the user that it is
// logged in as.
type luaRights struct {
	asked  bool
	denied bool   // the user may not run scripts
	read   string // EVAL_RO where the server has it: it needs no right to write, and replicas run it; else EVAL; empty while not known
}

// readVerb is the command that runs a script that only reads; empty where the user may
// run none, or where that is not known and can't be asked. It asks the server once, with a
// script that does nothing; inside MULTI, and with client tracking, whose CACHING YES holds for the
// next command, on the second connection.
func (s *session) readVerb() (string, error) {
	if s.lua.asked {
		return s.lua.verb(), nil
	}
	if s.tx.open || s.tracking {
		s.learnVerbBeside()
		return s.lua.verb(), nil
	}
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		a, err := s.askPlainly(verb, "return 1", "0")
		if err != nil {
			return "", err
		}
		switch {
		case !a.isError():
			s.lua = luaRights{asked: true, read: verb}
		case strings.HasPrefix(a.text, "NOPERM"):
			s.lua = luaRights{asked: true, denied: true}
		case isUnknownCommand(a.text):
			continue
		}
		break // NOAUTH, LOADING …: the command itself will meet it too
	}
	return s.lua.verb(), nil
}

func (s *session) learnVerbBeside() {
	if !s.settle() {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
	defer cancel()
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		err := s.beside().Do(ctx, verb, "return 1", 0).Err()
		switch {
		case err == nil:
			s.lua = luaRights{asked: true, read: verb}
		case strings.HasPrefix(err.Error(), "NOPERM"):
			s.lua = luaRights{asked: true, denied: true}
		case isUnknownCommand(err.Error()):
			continue
		}
		return
	}
}

func (l *luaRights) verb() string {
	if l.denied {
		return ""
	}
	return l.read
}

// askPlainly sends a small request of the gateway's own on the client's connection and
// waits for the answer.
func (s *session) askPlainly(args ...string) (answer, error) {
	bytes := make([][]byte, len(args))
	for i, a := range args {
		bytes[i] = []byte(a)
	}
	o := &op{done: make(chan struct{})}
	if err := s.ask(entry{kind: kindCapture, op: o}, bytes); err != nil {
		return answer{}, err
	}
	s.letGo(o)
	return o.answer, nil
}
