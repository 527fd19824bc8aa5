package tarantool

import wire "github.com/cinch-layer/cinch/internal/wire/iproto"

// refusal is an answer of ours in place of the server's.
type refusal struct {
	code wire.Type
	what string // counted by
	text string
}

func (r *refusal) Error() string { return r.text }

// unsupported is the server's own form of saying that something is not possible.
func unsupported(what, format string) *refusal {
	return &refusal{wire.ErrUnsupported, what, "cinch does not support " + format}
}

var (
	noMemory  = &refusal{wire.ErrNoMemory, "budget", "cinch: the memory budget is used up"}
	malformed = &refusal{wire.ErrInvalid, "malformed", "Invalid MsgPack - packet body"}
)
