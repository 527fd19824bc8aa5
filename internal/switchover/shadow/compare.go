package shadow

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Compared counts the operations that both targets got, by how their answers compare.
type Compared struct {
	Equal     uint64 `json:"equal"`      // answered alike
	EqualData uint64 `json:"equal_data"` // of these, the answers with data or a number of rows
	Diverged  uint64 `json:"diverged"`   // of the equal ones, those production answered differently
	Refused   uint64 `json:"refused"`    // of those, errors of both targets but not of production
	Different uint64 `json:"different"`  // not answered alike
	Expired   uint64 `json:"expired"`    // not alike, since a value had expired at one of them
	Timed     uint64 `json:"timed"`      // compared by success alone: answers differ by nature
	// Setup counts equal and timed ones that only set up a connection or end a transaction: they have no data
	// to compare.
	Setup uint64 `json:"setup"`
	// Unordered counts operations that were not compared: a target did not wait for the operations before it,
	// or the answers differ and a target sent a later write before the end of a read.
	Unordered uint64          `json:"unordered"`
	Repeated  uint64          `json:"repeated"`  // repeated at a target until it answered like production
	Lost      [targets]uint64 `json:"lost"`      // not answered, by target
	UnderWay  uint64          `json:"under_way"` // not done when the mirror was turned off: lost at neither target
}

// answers returns how many operations both targets have answered, except those without data to compare.
func (c Compared) answers() uint64 {
	return c.Equal + c.Different + c.Expired + c.Timed - c.Setup + c.Unordered
}

// share returns the share of answers that was compared; 0 without answers.
func (c Compared) share() float64 {
	if c.answers() == 0 {
		return 0
	}
	return float64(c.EqualData+c.Different) / float64(c.answers())
}

// Thresholds for the share of answers that was compared.
const (
	minCompared    = 0.01 // below it there is no PASS: too little is known about the answers
	mostlyCompared = 0.5  // below it the first line warns
)

// tooFew returns why a PASS is withheld though no answer differs; "": enough were compared.
func (c Compared) tooFew() string {
	switch n := c.answers(); {
	case n == 0 && c.Setup > 0:
		return "no answer had data to compare"
	case n > 0 && c.share() < minCompared:
		return fmt.Sprintf("only %d of %d answers could be compared, and a PASS needs %.0f %%", c.EqualData, n, 100*minCompared)
	}
	return ""
}

// maxRefusedShare is the share of equal answers that may be errors of both targets where production had none.
const maxRefusedShare = 0.01

// refuse reports whether the targets reject too much of what production does.
func (c Compared) refuse() bool {
	return float64(c.Refused) > maxRefusedShare*float64(c.Equal) && c.Refused > 10
}

// losesMore returns the target with more unanswered operations.
func (c Compared) losesMore() int {
	if c.Lost[control] > c.Lost[test] {
		return control
	}
	return test
}

// Difference is an example of answers that differ. It contains no values.
type Difference struct {
	At      time.Time `json:"at"`
	Name    string    `json:"name"`
	Number  uint64    `json:"number"` // by completion in production
	Control string    `json:"control"`
	Test    string    `json:"test"`
	// Production says which target's answer was the same as production's.
	Production string `json:"production"`
}

// String names the operation, the answer of each target, and which one production agreed with.
func (d Difference) String() string {
	return fmt.Sprintf("%s (operation %d): control answered %s, test %s, production %s", d.Name, d.Number, d.Control, d.Test, d.Production)
}

// maxDifferences limits the examples that are kept.
const maxDifferences = 20

// compare collects the results of the target connections. It is safe for concurrent use.
type compare struct {
	mu       sync.Mutex
	total    Compared
	examples []Difference
	batch    *batch

	refused Counter // by operation and error

	excuser  Excuser         // nil: no excuses
	excusing sync.Mutex      // locked while targets are asked
	doubts   chan *Operation // different, unless excused
}

// maxDoubts limits the differences that await an excuse. Further ones count as differences at once.
const maxDoubts = 256

func newCompare(p Protocol) *compare {
	c := &compare{batch: newBatch(time.Now()), doubts: make(chan *Operation, maxDoubts)}
	c.excuser, _ = p.(Excuser)
	return c
}

// add counts an operation that both targets are done with.
func (c *compare) add(op *Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, b := op.answers[control], op.answers[test]
	if a.off || b.off {
		c.total.UnderWay++
		return
	}
	if a.Lost || b.Lost {
		for i, answer := range op.answers {
			if answer.Lost {
				c.total.Lost[i]++
			}
		}
		return
	}
	c.count(op, a, b)
	repeated := a.Tries > 1 || b.Tries > 1
	if repeated {
		c.total.Repeated++
	}
	if op.Kind != State && !op.Blocks && !op.Untimed && !op.stopped.Load() && !repeated {
		c.batch.add(op)
	}
}

// count counts an operation that both targets have answered.
func (c *compare) count(op *Operation, a, b Answer) {
	switch {
	case !op.inOrder():
		c.total.Unordered++
	case !a.same(b, op.Check) && op.passed.Load(): // one of them may have seen later writes
		c.total.Unordered++
	case !a.same(b, op.Check):
		c.differ(op, a, b)
	case op.Check == Exact:
		c.total.Equal++
		c.countSetup(op, a)
		if !op.Production.Lost && !a.same(op.Production, Exact) {
			c.total.Diverged++
			if a.Error != "" && op.Production.Error == "" {
				c.total.Refused++
				c.refused.Add(op.Name + ": " + a.Error)
			}
		}
	default:
		c.total.Timed++
		c.countSetup(op, a)
	}
}

// countSetup separates answers with data from those that only set up a connection or end a transaction, such
// as a login, BEGIN or COMMIT.
func (c *compare) countSetup(op *Operation, a Answer) {
	switch {
	case op.Kind == State || a.Bare:
		c.total.Setup++
	case op.Check == Exact:
		c.total.EqualData++
	}
}

// differ counts a difference, or queues it first if the Protocol may excuse it.
func (c *compare) differ(op *Operation, a, b Answer) {
	if c.excuser != nil {
		select {
		case c.doubts <- op:
			return
		default: // too many for excuses
		}
	}
	c.different(op, a, b)
}

func (c *compare) different(op *Operation, a, b Answer) {
	c.total.Different++
	if len(c.examples) < maxDifferences {
		c.examples = append(c.examples, differenceOf(op, a, b))
	}
}

func differenceOf(op *Operation, a, b Answer) Difference {
	d := Difference{At: time.Now(), Name: op.Name, Number: op.number, Control: a.describe(), Test: b.describe(), Production: "like neither"}
	if d.Control == aValue && d.Test == aValue {
		d.Test = "another value"
	}
	switch p := op.Production; {
	case p.Lost:
		d.Production = "got a different request"
	case p.same(a, Exact):
		d.Production = "like control"
	case p.same(b, Exact):
		d.Production = "like test"
	}
	return d
}

const aValue = "a value"

// resolve asks for excuses until doubts is closed. Differences that are undecided when ctx ends count as under way.
func (c *compare) resolve(ctx context.Context, control, test *Target) {
	for op := range c.doubts {
		c.excusing.Lock()
		excused := ctx.Err() == nil && c.excuser.Excuse(ctx, op, control, test)
		c.excusing.Unlock()
		c.mu.Lock()
		switch {
		case excused:
			c.total.Expired++
		case ctx.Err() != nil:
			c.total.UnderWay++
		default:
			c.different(op, op.answers[0], op.answers[1])
		}
		c.mu.Unlock()
	}
}

// describe describes an answer without its content.
func (a Answer) describe() string {
	switch {
	case a.Error != "":
		return "error " + a.Error
	case a.Missing:
		return "nothing"
	}
	return aValue
}

// totals returns the counts so far, and examples of differences.
func (c *compare) totals() (Compared, []Difference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total, append([]Difference(nil), c.examples...)
}

// cut ends the current batch and begins the next.
func (c *compare) cut(now time.Time) *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.batch
	c.batch = newBatch(now)
	b.end = now
	return b
}
