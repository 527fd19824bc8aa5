package dict

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// Candidate is a dictionary that Search tried.
type Candidate struct {
	Options TrainOptions
	Dict    *codec.Dict // nil if Err is set
	Report  Report      // on the samples held out
	Err     error
}

// Sizes lists the dictionary sizes that [Candidates] returns, in bytes. It must not be modified.
var Sizes = []int{4 << 10, 16 << 10, 32 << 10, 64 << 10, 112 << 10}

// Candidates returns options for each of [Sizes] with the algorithms [Cover] and [Content], and with external
// unless it is nil. level is TrainOptions.Level.
func Candidates(level int, external Trainer) []TrainOptions {
	var all []TrainOptions
	for _, size := range Sizes {
		for _, a := range []Algorithm{Cover, Content} {
			all = append(all, TrainOptions{Size: size, Level: level, Algorithm: a})
		}
		if external != nil {
			all = append(all, TrainOptions{Size: size, Level: level, Algorithm: External, External: external})
		}
	}
	return all
}

// Search trains a dictionary with each of the options on three quarters of the samples, and evaluates it by s
// on the rest. It returns all candidates, in the order of options, and the best: the one that makes the values
// smallest or, within half a percent, the smaller dictionary. It fails only if all candidates fail; the error
// wraps theirs and [ErrSamples]. progress, if not nil, is called before each option is tried. All options must have the
// same external trainer.
func Search(e *codec.Engine, samples [][]byte, s codec.Setting, options []TrainOptions, progress func(done int, next TrainOptions)) (best Candidate, all []Candidate, err error) {
	learn, heldOut := Split(samples, 4)
	selections := map[method]*selected{}
	var failures []error
	for i, o := range options {
		if progress != nil {
			progress(i, o)
		}
		c := Candidate{Options: o}
		if c.Err = o.setDefaults(); c.Err == nil {
			from := selections[methodOf(o)]
			if from == nil {
				from = new(selected)
				from.Selection, from.err = Select(learn, largest(o, options))
				selections[methodOf(o)] = from
			}
			if c.Err = from.err; c.Err == nil {
				c.Dict, c.Err = from.Dict(o.Size)
			}
		}
		if c.Err == nil {
			c.Report, c.Err = Evaluate(e, c.Dict, s, heldOut)
		}
		all = append(all, c)
		if c.Err != nil {
			failures = append(failures, fmt.Errorf("%s, %d bytes: %w", o.Algorithm, o.Size, c.Err))
		} else if best.Dict == nil || c.better(best) {
			best = c
		}
	}
	if best.Dict == nil {
		return best, all, fmt.Errorf("no dictionary: %w", errors.Join(append(failures, ErrSamples)...))
	}
	return best, all, nil
}

// selected is the result of Select.
type selected struct {
	*Selection
	err error
}

// method holds the options that a selection depends on, without its size. All options have the same external trainer.
type method struct {
	algorithm      Algorithm
	level, segment int
}

func methodOf(o TrainOptions) method { return method{o.Algorithm, o.Level, o.Segment} }

// largest returns o with the largest size of the valid options with its method.
func largest(o TrainOptions, options []TrainOptions) TrainOptions {
	for _, other := range options {
		if other.setDefaults() == nil && methodOf(other) == methodOf(o) {
			o.Size = max(o.Size, other.Size)
		}
	}
	return o
}

// better reports whether c compresses to fewer bytes or, within half a percent, is the smaller dictionary.
func (c Candidate) better(than Candidate) bool {
	a, b := c.Report.DictBytes, than.Report.DictBytes
	if d := a - b; max(d, -d)*200 < b {
		return len(c.Dict.Content()) < len(than.Dict.Content())
	}
	return a < b
}
