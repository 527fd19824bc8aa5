package shadow

import (
	"bytes"
	"slices"
)

// connState is what a connection of a client has said that all behind depends on: a connection to a target that is made anew says it first.
type connState struct {
	ops   []*Operation // in their order, the last of those that say the same
	bytes int64        // in the budget
}

// mostStates are kept of a connection: those that came last.
const mostStates = 1000

// said is what there is so far; what comes later is no part of it.
func (s *connState) said() []*Operation {
	if s == nil {
		return nil
	}
	return slices.Clip(s.ops)
}

// connStates are those of all connections, by their number.
type connStates map[uint64]*connState

// remember keeps those of ops that which chooses. It returns by how much more that is.
func (all connStates) remember(conn uint64, ops []*Operation, which func(*Operation) bool) (grown int64) {
	for _, op := range ops {
		if !which(op) {
			continue
		}
		s := all[conn]
		if s == nil {
			s = &connState{}
			all[conn] = s
		}
		grown += s.keep(op)
	}
	return grown
}

// forget returns how much there was of a connection.
func (all connStates) forget(conn uint64) int64 {
	s := all[conn]
	if s == nil {
		return 0
	}
	delete(all, conn)
	return s.bytes
}

// keep returns by how much the state has grown.
func (s *connState) keep(op *Operation) (grown int64) {
	kept := make([]*Operation, 0, len(s.ops)+1)
	for i, o := range s.ops {
		if !o.says(op) && (i > 0 || len(s.ops) < mostStates) {
			kept = append(kept, o)
			continue
		}
		grown -= o.weight()
	}
	s.ops = append(kept, op)
	grown += op.weight()
	s.bytes += grown
	return grown
}

// isState chooses what a connection says again.
func (op *Operation) isState() bool { return op.Kind == State }

// isStateBefore chooses that of a connection which is older than the run: reads that change it are said as well.
func (op *Operation) isStateBefore() bool { return op.Kind == State || op.Kind == Read && op.Keep }

func (op *Operation) says(other *Operation) bool {
	return op.Name == other.Name && bytes.Equal(op.Request, other.Request)
}
