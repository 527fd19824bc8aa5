package redis

import (
	"context"
	"strings"
	"sync/atomic"
)

// user holds what is known about the rights of the client's user on this connection, and a second connection with the
// same login.
type user struct {
	sideConn sideConn

	lua      luaRights
	units    unitRights
	tracking atomic.Bool // CLIENT TRACKING is on: keys read on this connection count as cached by the client
}

// luaRights records whether the connection's user may run scripts.
type luaRights struct {
	asked  bool
	denied bool   // the user may not run scripts
	read   string // EVAL_RO (no right to write needed, runs on replicas), or EVAL if the server lacks it; "": unknown
}

// readOnlyEval returns the command that runs a read-only script, "" if the user may run none or if that is
// unknown and cannot be asked. It asks the server once, with a script that does nothing. Inside MULTI, and
// under client tracking, whose CACHING YES applies to the next command, it asks on the second connection.
func (u *user) readOnlyEval() (string, error) {
	if u.lua.asked {
		return u.lua.command(), nil
	}
	if u.sideConn.upstream.tx.open || u.tracking.Load() {
		u.learnLuaRights()
		return u.lua.command(), nil
	}
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		a, err := u.sideConn.upstream.query(verb, "return 1", "0")
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
		break // NOAUTH, LOADING …: the command itself will get it too
	}
	return u.lua.command(), nil
}

func (u *user) learnLuaRights() {
	if !u.sideConn.upstream.awaitReplies() {
		return
	}
	ctx, cancel := context.WithTimeout(u.sideConn.context(), askTimeout)
	defer cancel()
	for _, verb := range []string{"EVAL_RO", "EVAL"} {
		err := u.sideConn.client().Do(ctx, verb, "return 1", 0).Err()
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

func (l *luaRights) command() string {
	if l.denied {
		return ""
	}
	return l.read
}

func (u *user) invalidate() {
	u.lua, u.units = luaRights{}, unitRights{}
	u.sideConn.invalidate()
}

// mayEval reports whether the user may run scripts. It asks outside the client's transaction.
func (u *user) mayEval() bool {
	if !u.lua.asked && !u.lua.denied {
		u.learnLuaRights()
	}
	return !u.lua.denied
}

// unitRights records whether the user may open transactions. If MULTI were refused, the commands behind it
// would run one by one.
type unitRights struct {
	asked, denied bool
	noFieldExpiry bool // the server does not know expiring fields
}
