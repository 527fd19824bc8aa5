package shadow

import (
	"context"
	"sync"
	"time"
)

// Compared is what became of the operations that both targets got.
type Compared struct {
	Equal     uint64          `json:"equal"`     // answered alike
	Diverged  uint64          `json:"diverged"`  // of the equal ones, those that production answered otherwise
	Refused   uint64          `json:"refused"`   // of those, errors of both targets where production had none
	Different uint64          `json:"different"` // not
	Expired   uint64          `json:"expired"`   // not, since a value had expired at one of them
	Timed     uint64          `json:"timed"`     // compared by latency and success alone: their answers differ by nature
	Unordered uint64          `json:"unordered"` // not compared: a target could not wait for what came before
	Lost      [targets]uint64 `json:"lost"`      // not answered, by target
}

// Difference is an example of answers that differ. It holds no value.
type Difference struct {
	At      time.Time `json:"at"`
	Name    string    `json:"name"`
	Number  uint64    `json:"number"` // by completion in production
	Control string    `json:"control"`
	Test    string    `json:"test"`
}

// mostDifferences are kept as examples.
const mostDifferences = 20

// compare collects what the lanes bring. It is safe for concurrent use.
type compare struct {
	mu       sync.Mutex
	total    Compared
	examples []Difference
	batch    *batch

	refused counts // by operation and error

	excuser  Excuser         // nil: there are no excuses
	excusing sync.Mutex      // while targets are asked
	doubts   chan *Operation // different, unless there is one
}

// mostDoubts are looked into at a time. More differences than that are no accident.
const mostDoubts = 256

func newCompare(p Protocol) *compare {
	c := &compare{batch: newBatch(time.Now()), doubts: make(chan *Operation, mostDoubts)}
	c.excuser, _ = p.(Excuser)
	return c
}

// add takes an operation that both targets are done with.
func (c *compare) add(op *Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, b := op.answers[control], op.answers[test]
	if a.Lost || b.Lost {
		for i, answer := range op.answers {
			if answer.Lost {
				c.total.Lost[i]++
			}
		}
		return
	}
	c.judge(op, a, b)
	if op.Kind != State && !op.Blocks && !op.stopped.Load() {
		c.batch.add(op)
	}
}

func (c *compare) judge(op *Operation, a, b Answer) {
	switch {
	case !op.inOrder():
		c.total.Unordered++
	case !a.same(b, op.Check):
		c.differ(op, a, b)
	case op.Check == Exact:
		c.total.Equal++
		if !op.Production.Lost && !a.same(op.Production, Exact) {
			c.total.Diverged++
			if a.Error != "" && op.Production.Error == "" {
				c.total.Refused++
				c.refused.add(op.Name + ": " + a.Error)
			}
		}
	default:
		c.total.Timed++
	}
}

// differ notes a difference, or doubts it first, where a Protocol may know an excuse.
func (c *compare) differ(op *Operation, a, b Answer) {
	if c.excuser != nil && len(op.Keys) > 0 {
		select {
		case c.doubts <- op:
			return
		default: // there are too many for excuses
		}
	}
	c.different(op, a, b)
}

func (c *compare) different(op *Operation, a, b Answer) {
	c.total.Different++
	if len(c.examples) < mostDifferences {
		c.examples = append(c.examples, Difference{At: time.Now(), Name: op.Name, Number: op.number, Control: a.describe(), Test: b.describe()})
	}
}

// resolve asks for excuses until the doubts are closed. Those that are left when ctx ends have none.
func (c *compare) resolve(ctx context.Context, control, test *Target) {
	for op := range c.doubts {
		c.excusing.Lock()
		excused := ctx.Err() == nil && c.excuser.Excuse(ctx, op, control, test)
		c.excusing.Unlock()
		c.mu.Lock()
		if excused {
			c.total.Expired++
		} else {
			c.different(op, op.answers[0], op.answers[1])
		}
		c.mu.Unlock()
	}
}

// describe says what an answer is like without its content.
func (a Answer) describe() string {
	switch {
	case a.Error != "":
		return "error " + a.Error
	case a.Missing:
		return "nothing"
	}
	return "a value"
}

// totals so far, and examples of differences.
func (c *compare) totals() (Compared, []Difference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total, append([]Difference(nil), c.examples...)
}

// cut ends the current batch and begins another.
func (c *compare) cut(now time.Time) *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.batch
	c.batch = newBatch(now)
	b.end = now
	return b
}
