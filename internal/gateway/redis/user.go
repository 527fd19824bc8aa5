package redis

import (
	"context"
	"strings"
)

// user is as whom the client is logged in: what it may do on this connection, as far as that was found out,
// and a second connection of the same user, for more questions.
type user struct {
	second second

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
func (u *user) readVerb() (string, error) {
	if u.lua.asked {
		return u.lua.verb(), nil
	}
	if u.second.talk.tx.open || u.tracking {
		u.learnBeside()
		return u.lua.verb(), nil
	}
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		a, err := u.second.talk.askPlainly(verb, "return 1", "0")
		if err != nil {
			return "", err
		}
		switch {
		case !a.isError():
			u.lua = luaRights{asked: true, read: verb}
		case strings.HasPrefix(a.text, "NOPERM"):
			u.lua = luaRights{asked: true, denied: true}
		case isUnknownCommand(a.text):
			continue
		}
		break // NOAUTH, LOADING …: the command itself will meet it too
	}
	return u.lua.verb(), nil
}

func (u *user) learnBeside() {
	if !u.second.talk.settle() {
		return
	}
	ctx, cancel := context.WithTimeout(u.second.context(), askTimeout)
	defer cancel()
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		err := u.second.client().Do(ctx, verb, "return 1", 0).Err()
		switch {
		case err == nil:
			u.lua = luaRights{asked: true, read: verb}
		case strings.HasPrefix(err.Error(), "NOPERM"):
			u.lua = luaRights{asked: true, denied: true}
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

func (u *user) forget() {
	u.lua, u.units = luaRights{}, unitRights{}
	u.second.forget()
}

// mayEval asks beside the client's transaction whether the user may run scripts.
func (u *user) mayEval() bool {
	if !u.lua.asked && !u.lua.denied {
		u.learnBeside()
	}
	return !u.lua.denied
}

// unitRights remembers whether the user may open transactions: if MULTI were refused, the
// commands behind it would run one by one.
type unitRights struct {
	asked, denied bool
	endless       bool // the server knows of no fields that expire
}
