package postgres

import "github.com/cinch-layer/cinch/internal/shadow"

// beside holds what this package adds to an operation.
type beside struct {
	shape *shape // nil: nothing is left out of the comparison
	guide *guide // nil: not guided
	draws []draw // numbers that production took from sequences
	stirs stir   // what else it may do to sequences
}

// besideOf returns an operation's beside, or nil.
func besideOf(op *shadow.Operation) *beside {
	b, _ := op.Private.(*beside)
	return b
}

// guideOf returns the guide of an operation, nil if it has none.
func guideOf(op *shadow.Operation) *guide {
	if b := besideOf(op); b != nil {
		return b.guide
	}
	return nil
}

// stirred returns what operations may have done to sequences.
func stirred(ops []*shadow.Operation) (how stir) {
	for _, op := range ops {
		if b := besideOf(op); b != nil {
			how = max(how, b.stirs)
		}
	}
	return how
}

// alone reports whether a target needs further statements before or after the operation.
func (b *beside) alone() bool { return b != nil && (b.guide != nil || len(b.draws) > 0) }
