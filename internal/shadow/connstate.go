package shadow

import (
	"bytes"
	"slices"
)

// connState holds the operations of a client's connection that set its state: a new connection to a target
// sends them first.
type connState struct {
	ops   []*Operation // in their order; of equal ones, only the last
	bytes int64        // in the budget
}

// mostStates limits the operations kept of a connection: the last ones are kept.
const mostStates = 1000

// said returns the operations so far; later ones are not added to the slice.
func (s *connState) said() []*Operation {
	if s == nil {
		return nil
	}
	return slices.Clip(s.ops)
}

// connStates holds the state of all connections, by their number.
type connStates map[uint64]*connState

// remember keeps the operations for which which returns true. It returns by how many bytes the state has
// grown.
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

// forget removes a connection, and returns the bytes that it held.
func (all connStates) forget(conn uint64) int64 {
	s := all[conn]
	if s == nil {
		return 0
	}
	delete(all, conn)
	return s.bytes
}

// keep adds an operation, and returns by how many bytes the state has grown.
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

// isState selects the operations that a new connection repeats.
func (op *Operation) isState() bool { return op.Kind == State }

// isStateBefore selects them for a connection that is older than the run: reads with Keep are repeated as
// well.
func (op *Operation) isStateBefore() bool { return op.Kind == State || op.Kind == Read && op.Keep }

func (op *Operation) says(other *Operation) bool {
	return op.Name == other.Name && bytes.Equal(op.Request, other.Request)
}
