package redis

import (
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// opData is an operation's data for this package (Operation.Private).
type opData struct {
	managed  bool      // the mirror expires all its keys, so no server's clock excuses a difference
	queried  []subject // targets return their times to live after its answer
	from, to time.Time // when production executed it
	parts    []part    // of a transaction's reply
}

// answer returns the comparable form of a reply. found holds the times to live that the target has returned.
func (o *opData) answer(frame []byte, form uint8, found []time.Duration) shadow.Answer {
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

// maxTTLQueries limits the keys of a script whose times to live are asked for.
const maxTTLQueries = 16

// shortTTL is the time to live, set by a script, below which a key may expire by its server's clock before
// the mirror acts.
const shortTTL = 500 * time.Millisecond

// ttlScripts holds the script commands that may set times to live.
var ttlScripts = map[string]bool{"eval": true, "evalsha": true, "fcall": true}

// extendScriptTTLs asks for the times to live of scripts' keys, and sets them to ten years.
func (r *reader) extendScriptTTLs(op *shadow.Operation, requests []request, at time.Time) {
	if !r.p.managesExpiry {
		return
	}
	o, ok := op.Private.(*opData)
	if !ok {
		o = &opData{}
	}
	for _, q := range requests {
		if !ttlScripts[q.name] {
			continue
		}
		keys, _ := q.keysOf(q.args)
		for _, k := range keys[:min(len(keys), maxTTLQueries)] {
			o.queried = append(o.queried, subject{db: r.db, key: string(k)})
		}
		o.from, o.to = q.at, at
	}
	for _, s := range o.queried {
		op.Request = resp.AppendCommand(op.Request, "PTTL", s.key)
		op.Request = resp.AppendCommand(op.Request, "PEXPIRE", s.key, strconv.FormatInt(tenYears.Milliseconds(), 10), "XX")
	}
	if len(o.queried) > 0 {
		op.Private = o
	}
}

// readTTLs reads the answers to extendScriptTTLs, and returns the times to live that were not extended
// before.
func (c *conn) readTTLs(o *opData) (found []time.Duration, err error) {
	for _, s := range o.queried {
		reply, err := c.frame()
		if err != nil {
			return nil, err
		}
		if ms, ok := integerOf(reply); ok && ms > 0 && ms <= longestRun.Milliseconds() {
			left := time.Duration(ms) * time.Millisecond
			if left < shortTTL {
				c.deadlines.markDoubtful(s)
			}
			c.deadlines.set(deadline{subject: s, from: o.from.Add(left), to: o.to.Add(left + slack), answeredAt: o.to})
			found = append(found, left)
		}
		if _, err := c.frame(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// isFound reports whether n is one of the times to live in found, in milliseconds or seconds, read up to shortTTL or 1
// s earlier.
func isFound(n int64, found []time.Duration) bool {
	return slices.ContainsFunc(found, func(left time.Duration) bool {
		ms := left.Milliseconds()
		return n >= ms && n <= ms+shortTTL.Milliseconds() || n >= ms/1000 && n <= ms/1000+1
	})
}

// isExtended reports whether n can only be an extended time to live, in seconds or milliseconds.
func isExtended(n int64) bool {
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		if years := int64(tenYears / unit); n > years-int64(longestRun/unit) && n <= years+int64(longestRun/unit) {
			return true
		}
	}
	return false
}

// markManaged sets managed if the mirror expires all keys of an operation.
func (r *reader) markManaged(op *shadow.Operation) {
	if op.TouchesAll || len(op.Keys) == 0 {
		return
	}
	for _, name := range op.Keys {
		db, key := keyOf(name)
		if _, known := r.p.deadlines.get(subject{db: db, key: key}); !known {
			return
		}
	}
	o, ok := op.Private.(*opData)
	if !ok {
		o = &opData{}
		op.Private = o
	}
	o.managed = true
}
