package postgres

import "github.com/cinch-layer/cinch/internal/switchover/shadow"

// opData holds what this package adds to an operation.
type opData struct {
	excluded *exclusions       // nil: nothing is left out of the comparison
	guide    *guide            // nil: not guided
	numbers  []sequenceNumbers // numbers that production took from sequences
	effect   sequenceEffect    // what else it may do to sequences
}

// opDataOf returns an operation's opData, or nil.
func opDataOf(op *shadow.Operation) *opData {
	b, _ := op.Private.(*opData)
	return b
}

// guideOf returns the guide of an operation, nil if it has none.
func guideOf(op *shadow.Operation) *guide {
	if b := opDataOf(op); b != nil {
		return b.guide
	}
	return nil
}

// sequenceEffectOf returns what operations may have done to sequences.
func sequenceEffectOf(ops []*shadow.Operation) (how sequenceEffect) {
	for _, op := range ops {
		if b := opDataOf(op); b != nil {
			how = max(how, b.effect)
		}
	}
	return how
}

// hasExtraStatements reports whether a target needs further statements before or after the operation.
func (b *opData) hasExtraStatements() bool { return b != nil && (b.guide != nil || len(b.numbers) > 0) }
