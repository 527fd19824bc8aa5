package redis

import (
	"context"
	"strings"
)

// rights are what the client's user may do on this connection, as far as it was found out.
type rights struct {
	talk   *conversation
	second *second
	tx     *transaction
	ctx    context.Context

	lua      luaRights
	units    unitRights
	tracking bool // CLIENT TRACKING is on: what is read on this connection counts as cached by the client
}

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
func (r *rights) readVerb() (string, error) {
	if r.lua.asked {
		return r.lua.verb(), nil
	}
	if r.tx.open || r.tracking {
		r.learnBeside()
		return r.lua.verb(), nil
	}
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		a, err := r.talk.askPlainly(verb, "return 1", "0")
		if err != nil {
			return "", err
		}
		switch {
		case !a.isError():
			r.lua = luaRights{asked: true, read: verb}
		case strings.HasPrefix(a.text, "NOPERM"):
			r.lua = luaRights{asked: true, denied: true}
		case isUnknownCommand(a.text):
			continue
		}
		break // NOAUTH, LOADING …: the command itself will meet it too
	}
	return r.lua.verb(), nil
}

func (r *rights) learnBeside() {
	if !r.talk.settle() {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, askTimeout)
	defer cancel()
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		err := r.second.client().Do(ctx, verb, "return 1", 0).Err()
		switch {
		case err == nil:
			r.lua = luaRights{asked: true, read: verb}
		case strings.HasPrefix(err.Error(), "NOPERM"):
			r.lua = luaRights{asked: true, denied: true}
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

func (r *rights) forget() {
	r.lua, r.units = luaRights{}, unitRights{}
	r.second.forget()
}

// mayEval asks beside the client's transaction whether the user may run scripts.
func (r *rights) mayEval() bool {
	if !r.lua.asked && !r.lua.denied {
		r.learnBeside()
	}
	return !r.lua.denied
}

// unitRights remembers whether the user may open transactions: if MULTI were refused, the
// commands behind it would run one by one.
type unitRights struct {
	asked, denied bool
	endless       bool // the server knows of no fields that expire
}
