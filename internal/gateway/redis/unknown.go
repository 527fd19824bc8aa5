package redis

import (
	"fmt"

	"github.com/cinch-layer/cinch"
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

func contains(list [][]byte, b []byte) bool {
	for _, x := range list {
		if string(x) == string(b) {
			return true
		}
	}
	return false
}
