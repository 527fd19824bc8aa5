package redis

import (
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// aside is an operation's data for this package (Operation.Own).
type aside struct {
	sure     bool      // the mirror expires all its keys, so no server's clock excuses a difference
	asked    []subject // targets return their times to live after its answer
	from, to time.Time // when production executed it
	parts    []part    // of a transaction's reply
}

// answer returns the comparable form of a reply. found holds the times to live that the target has returned.
func (o *aside) answer(frame []byte, form uint8, found []time.Duration) shadow.Answer {
	a := answerOf(frame, form)
	switch {
	case a.Error != "":
	case o.parts != nil:
		a.Digest = digestParts(frame, o.parts, found)
	case form == scripted:
		a.Digest = digestScripted(frame, found)
	}
	return a
}

// maxAsked limits the keys of a script that are asked for.
const maxAsked = 16

// soon is the time to live, set by a script, below which a key may expire by its server's clock before the
// mirror acts.
const soon = 500 * time.Millisecond

// setLives holds the script commands that may set times to live.
var setLives = map[string]bool{"eval": true, "evalsha": true, "fcall": true}

// lengthenScripts asks for the times to live of scripts' keys, and sets them to ten years.
func (r *reader) lengthenScripts(op *shadow.Operation, requests []request, at time.Time) {
	if !r.p.keepsTime {
		return
	}
	o, ok := op.Private.(*aside)
	if !ok {
		o = &aside{}
	}
	for _, q := range requests {
		if !setLives[q.name] {
			continue
		}
		keys, _ := q.keysOf(q.args)
		for _, k := range keys[:min(len(keys), maxAsked)] {
			o.asked = append(o.asked, subject{db: r.db, key: string(k)})
		}
		o.from, o.to = q.at, at
	}
	for _, s := range o.asked {
		op.Request = resp.AppendCommand(op.Request, "PTTL", s.key)
		op.Request = resp.AppendCommand(op.Request, "PEXPIRE", s.key, strconv.FormatInt(tenYears.Milliseconds(), 10), "XX")
	}
	if len(o.asked) > 0 {
		op.Private = o
	}
}

// readLives reads the answers to lengthenScripts, and returns the times to live that were not lengthened
// before.
func (c *conn) readLives(o *aside) (found []time.Duration, err error) {
	for _, s := range o.asked {
		left, err := c.frame()
		if err != nil {
			return nil, err
		}
		if ms, ok := integerOf(left); ok && ms > 0 && ms <= longestRun.Milliseconds() {
			life := time.Duration(ms) * time.Millisecond
			if life < soon {
				c.lives.doubt(s)
			}
			c.lives.set(deadline{subject: s, from: o.from.Add(life), to: o.to.Add(life + slack), made: o.to})
			found = append(found, life)
		}
		if _, err := c.frame(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// isFound reports whether n is one of found, read at most a moment earlier, in seconds or milliseconds.
func isFound(n int64, found []time.Duration) bool {
	return slices.ContainsFunc(found, func(life time.Duration) bool {
		ms := life.Milliseconds()
		return n >= ms && n <= ms+soon.Milliseconds() || n >= ms/1000 && n <= ms/1000+1
	})
}

// isLengthened reports whether n can only be a lengthened time to live, in seconds or milliseconds.
func isLengthened(n int64) bool {
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		if years := int64(tenYears / unit); n > years-int64(longestRun/unit) && n <= years+int64(longestRun/unit) {
			return true
		}
	}
	return false
}

// makeSure sets sure if the mirror expires all keys of an operation.
func (r *reader) makeSure(op *shadow.Operation) {
	if op.TouchesAll || len(op.Keys) == 0 {
		return
	}
	for _, name := range op.Keys {
		db, key := keyOf(name)
		if _, known := r.p.deadlines.get(subject{db: db, key: key}); !known {
			return
		}
	}
	o, ok := op.Private.(*aside)
	if !ok {
		o = &aside{}
		op.Private = o
	}
	o.sure = true
}
