package shadow

import "time"

// keep answers the operations that the plant loses or drops, and returns the others.
func (p *Plant) keep(t *Target, ops []*Operation) []*Operation {
	var kept []*Operation
	for _, op := range ops {
		switch {
		case p.Lose != nil && p.Lose(op):
			t.answer(op, op.Production)
		case p.Drop != nil && p.Drop(op):
			t.answer(op, Answer{Lost: true})
		default:
			kept = append(kept, op)
		}
	}
	return kept
}

// change makes an answer wrong or late.
func (p *Plant) change(op *Operation, a Answer) Answer {
	if p.Wrong != nil && p.Wrong(op) {
		a.Digest++
	}
	// The time is added, not spent: spending it would take CPU time from the other target's connection.
	a.Took += time.Duration(p.Slower * float64(a.Took))
	return a
}
