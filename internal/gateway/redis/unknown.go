package redis

import (
	"fmt"
	"strings"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// handleUnknown runs a command that the table does not know as if it computed on the
// values of its keys: they are put back first. What it writes stays plain.
func (s *session) handleUnknown(r *request) error {
	keys, err := s.keysOf(r.args)
	if err != nil {
		return s.refuse(fmt.Sprintf("ERR cinch: %.32q is not in the command table, and its keys can't be asked: %v", r.args[0], err))
	}
	if len(keys) == 0 || s.excluded(keys) {
		return s.forward(r, s.echoing(&request{cmd: unknownCommand, args: r.args}, nil))
	}
	for _, a := range r.args[1:] {
		if cinch.IsSealed(a) && !contains(keys, a) {
			return s.refuse(fmt.Sprintf("ERR cinch: %.32q is not in the command table and would store a value that begins like an envelope", r.args[0]))
		}
	}
	u := *r
	u.cmd = unknownCommand
	return s.runUnit(&u, distinct(keys))
}

// runInside runs a request that could meet a sealed value where the client's own WATCH or MULTI is in
// the way of a unit: what is found at its keys now may be another value when the server carries it
// out. It is sent where that makes no difference, and refused elsewhere.
func (s *session) runInside(r *request, keys [][]byte) error {
	if strings.HasPrefix(r.cmd.name, "evalsha") { // the client loads it again
		return s.refuse(unknownHere(r))
	}
	types, err := s.typesOf(keys)
	switch {
	case err != nil:
		return s.refuse("ERR cinch: can't look at the keys: " + err.Error())
	case !s.tx.brings && ofModules(types):
		return s.forward(r, s.echoing(r, nil))
	}
	found := s.probeBeside(keys)
	switch {
	case found.err != nil:
		return s.refuseBroken(found.err)
	case found.unseen != "":
		return s.refuse(found.unseen)
	case len(found.parts) == 0 && s.tx.open && !s.tx.brings && s.watching.covers(s.where(), keys):
		return s.forward(r, s.echoing(r, nil)) // EXEC is aborted when they change from here on
	case r.cmd.strategy == unknown && s.mayEval() && len(r.args) < lua.MaxArgs:
		return s.runWrapped(r, keys)
	}
	return s.refuseFor(unknownHere(r))
}

// mayEval asks beside the client's transaction whether the user may run scripts.
func (s *session) mayEval() bool {
	if !s.lua.asked && !s.lua.denied {
		s.learnVerbBeside()
	}
	return !s.lua.denied
}

// runWrapped runs a command in a script, which looks at the keys in the same step.
func (s *session) runWrapped(r *request, keys [][]byte) error {
	body := "return redis.pcall(unpack(ARGV))"
	if s.version.Load() == 3 {
		body = "redis.setresp(3) " + body
	}
	args := append([][]byte{[]byte("EVAL"), []byte(body), itoa(len(keys))}, keys...)
	return s.runBeside(&request{cmd: wrapped, args: append(args, r.args...)}, keys)
}

// wrapped is the row of the script that a command is run in.
var wrapped = &command{name: "eval", arity: -3, strategy: scripts, reply: shapeAny}

// typesOf asks what kinds of keys they are; "none" are not there.
func (s *session) typesOf(keys [][]byte) (types []string, err error) {
	if !s.settle() {
		return nil, errGone
	}
	p, end := s.newProber()
	defer end()
	for _, k := range keys {
		reply, err := p.ask("TYPE", k)
		if err != nil {
			return nil, err
		}
		name, _ := reply.(string)
		types = append(types, name)
	}
	return types, nil
}

// ofModules reports that all keys have types of modules. What works on such a key complains of
// the type of one that holds a value.
func ofModules(types []string) bool {
	for _, t := range types {
		switch t {
		case "none", "string", "hash", "list", "set", "zset", "stream":
			return false
		}
	}
	return len(types) > 0
}

// mayBring reports that a command which is queued in a transaction may bring a sealed value to some key
// that was looked at before.
func mayBring(c *command) bool {
	switch c.strategy {
	case scripts, unknown:
		return true
	}
	switch c.name {
	case "rename", "renamenx", "copy", "move", "restore", "restore-asking", "swapdb", moduleCommand.name:
		return true
	}
	return false
}

func contains(list [][]byte, b []byte) bool {
	for _, x := range list {
		if string(x) == string(b) {
			return true
		}
	}
	return false
}
