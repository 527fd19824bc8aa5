package postgres

import "github.com/cinch-layer/cinch/internal/shadow"

// beside is what the package knows of an operation.
type beside struct {
	shape *shape // nil: nothing is left out of what is compared
	guide *guide // nil: it needs no lead
	draws []draw // numbers that it takes from sequences
	stirs stir   // what it may do to sequences beside that
}

// besideOf is an operation's; nil: there is nothing.
func besideOf(op *shadow.Operation) *beside {
	b, _ := op.Own.(*beside)
	return b
}

// guideOf returns the guide of an operation, nil if it has none.
func guideOf(op *shadow.Operation) *guide {
	if b := besideOf(op); b != nil {
		return b.guide
	}
	return nil
}

// stirred is what operations may have done to sequences.
func stirred(ops []*shadow.Operation) (how stir) {
	for _, op := range ops {
		if b := besideOf(op); b != nil {
			how = max(how, b.stirs)
		}
	}
	return how
}

// alone reports whether an operation needs something before or behind it at a target.
func (b *beside) alone() bool { return b != nil && (b.guide != nil || len(b.draws) > 0) }
