package shadow

import (
	"bytes"
	"slices"
)

// connState holds the operations of a client's connection that set its state: a new connection to a target
// sends them first.
type connState struct {
	ops   []*Operation // in their order; of equal ones, only the last
	bytes int64        // taken from the budget

	// While a transaction is open, ops[settled:] are its operations, with the one that began it as the first.
	inside  bool
	settled int
}

// maxStates limits the operations kept of a connection, and of its open transaction. Beyond it, the first one is kept,
// because it may say how to connect or begin the transaction, and the latest ones.
const maxStates = 1000

// operations returns the operations so far; later ones are not added to the slice.
func (s *connState) operations() []*Operation {
	if s == nil {
		return nil
	}
	return slices.Clip(s.ops)
}

// connStates holds the state of all connections, by their number.
type connStates map[uint64]*connState

// remember adds the operations that which selects. It returns by how many bytes the state has grown.
func (all connStates) remember(conn uint64, ops []*Operation, which func(*Operation) bool) (grown int64) {
	for _, op := range ops {
		s := all[conn]
		if op.Ends != NotEnded {
			if s != nil {
				grown += s.end(op.Ends)
			}
			continue
		}
		if !which(op) {
			continue
		}
		if s == nil {
			s = &connState{}
			all[conn] = s
		}
		grown += s.add(op)
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

// add adds an operation, and returns by how many bytes the state has grown.
func (s *connState) add(op *Operation) (grown int64) {
	if !s.inside && op.Lasts == InTransaction {
		s.inside, s.settled = true, len(s.ops)
	}
	from := 0
	if s.inside {
		from = s.settled
	}
	kept := append(make([]*Operation, 0, len(s.ops)+1), s.ops[:from]...)
	for _, o := range s.ops[from:] {
		if o.sameRequest(op) {
			grown -= o.weight()
		} else {
			kept = append(kept, o)
		}
	}
	if len(kept)-from >= maxStates {
		grown -= kept[from+1].weight()
		kept = slices.Delete(kept, from+1, from+2)
	}
	grown += op.weight()
	s.ops = append(kept, op)
	s.bytes += grown
	return grown
}

// end ends the open transaction. It keeps the operations whose effect lasts, and returns by how many bytes
// the state has grown.
func (s *connState) end(how Ending) (grown int64) {
	if !s.inside {
		return 0
	}
	open := s.ops[s.settled:]
	s.ops, s.inside = s.ops[:s.settled:s.settled], false
	for _, op := range open {
		s.bytes -= op.weight()
		grown -= op.weight()
		if op.Lasts == ForGood || op.Lasts == IfCommitted && how == Committed {
			grown += s.add(op)
		}
	}
	return grown
}

// isState selects the operations that a new connection repeats.
func (op *Operation) isState() bool {
	return op.Kind == State && op.SkipReason == "" && op.Lasts != Unrepeatable
}

// isStateBefore is like isState, for a connection that is older than the run: reads that change it are
// repeated, too.
func (op *Operation) isStateBefore() bool {
	return op.isState() || op.Kind == Read && op.Keep && (op.Lasts == ForGood || op.Lasts == IfCommitted)
}

func (op *Operation) sameRequest(other *Operation) bool {
	return op.Name == other.Name && bytes.Equal(op.Request, other.Request)
}
