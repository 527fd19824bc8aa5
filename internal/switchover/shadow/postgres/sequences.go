package postgres

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// sequences tracks the positions of a target's sequences. Before an operation that took numbers in production
// is sent to a target, the sequence there is set to the first of them (prepare). After it, the sequence is
// set so that the next number is higher than all that were given (restore). It is safe for concurrent use.
type sequences struct {
	moving sync.Mutex // held while sequences are set, not while operations run
	// Sessions that are running an operation for which they have set the sequence, the latest last; guarded
	// by moving.
	users map[string][]session

	mu    sync.Mutex
	known map[string]position
}

// session runs queries about sequences at a target.
type session interface {
	value(text string) (string, error)
}

// maxSequences limits the tracked sequences.
const maxSequences = 10_000

// position is the state of a sequence.
type position struct {
	greatest   int64 // greatest number given
	next       int64
	certain    bool // next is certain to be given next
	plain      bool // sessions take one number at a time (CACHE 1)
	set        bool // it was set for the running operation
	unsettable bool // this user can't set it, or it counts down
}

// markEffect records what operations that don't return their numbers may have done to sequences.
func (s *sequences) markEffect(how sequenceEffect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch how {
	case setsSequences:
		clear(s.known)
	case advancesSequences:
		for name, p := range s.known {
			p.certain = false
			s.known[name] = p
		}
	}
}

func (s *sequences) get(name string) position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known := s.known[name]; known {
		return p
	}
	return position{greatest: math.MinInt64, next: math.MinInt64}
}

func (s *sequences) store(name string, p position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSequences {
		s.known = map[string]position{}
	}
	s.known[name] = p
}

// settable matches a sequence named $s that this user may read and set to $n. Setting it does not call
// nextval, so currval and lastval stay.
const settable = `FROM pg_catalog.pg_sequence WHERE seqrelid = pg_catalog.to_regclass('$s') AND seqincrement > 0 AND $n BETWEEN seqmin AND seqmax
	AND pg_catalog.has_sequence_privilege(seqrelid, 'UPDATE') AND pg_catalog.has_sequence_privilege(seqrelid, 'USAGE, SELECT')`

const (
	setDown = `SELECT pg_catalog.concat_ws(' ', seqcache, seqstart, coalesce(pg_catalog.pg_sequence_last_value(seqrelid)::text, '-'),
		pg_catalog.setval(seqrelid::pg_catalog.regclass, $n, false)) ` + settable
	lastGiven = `SELECT pg_catalog.pg_sequence_last_value(seqrelid) ` + settable
	setNext   = `SELECT pg_catalog.setval(seqrelid::pg_catalog.regclass, $n, false) ` + settable
	setBehind = `SELECT pg_catalog.setval(seqrelid::pg_catalog.regclass, $n + seqincrement, false) ` + settable + ` AND $n + seqincrement <= seqmax`
)

func formatQuery(text, sequence string, n int64) string {
	text = strings.ReplaceAll(text, "$n", strconv.FormatInt(n, 10))
	return strings.ReplaceAll(text, "$s", strings.ReplaceAll(sequence, "'", "''"))
}

// addUser records that a session sets a sequence for its next operation.
func (s *sequences) addUser(name string, c session) {
	s.removeUser(name, c)
	if s.users == nil {
		s.users = map[string][]session{}
	}
	s.users[name] = append(s.users[name], c)
}

// removeUser undoes addUser. It reports whether another session has set the sequence since, for an operation
// that is running.
func (s *sequences) removeUser(name string, c session) (other bool) {
	users := s.users[name]
	i := slices.Index(users, c)
	if i < 0 {
		return false
	}
	if users = slices.Delete(users, i, i+1); len(users) == 0 {
		delete(s.users, name)
	} else {
		s.users[name] = users
	}
	return i < len(users)
}

// release replaces restore for an operation after which nothing can be set.
func (s *sequences) release(name string, _ sequenceNumbers, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.removeUser(name, c)
	return nil
}

// prepare sets a sequence to the first number that production took for the next operation. name is its key in
// known.
func (s *sequences) prepare(name string, d sequenceNumbers, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	return s.set(name, d, c)
}

// set implements prepare. s.moving must be held.
func (s *sequences) set(name string, d sequenceNumbers, c session) error {
	s.addUser(name, c)
	p := s.get(name)
	if p.set = false; p.certain && p.next == d.values[0] {
		s.store(name, p)
		return nil
	}
	said, err := c.value(formatQuery(setDown, d.sequence, d.values[0]))
	if err != nil {
		return err
	}
	var cache, start int64
	var last string
	if _, err := fmt.Sscan(said, &cache, &start, &last); err != nil {
		p.unsettable = true // no row
		s.store(name, p)
		return nil
	}
	p.set, p.certain, p.unsettable, p.plain = true, false, false, cache == 1
	if given, err := strconv.ParseInt(last, 10, 64); err == nil {
		p.greatest = max(p.greatest, given)
		p.next = p.greatest + 1
	} else if p.next == math.MinInt64 {
		p.next = start
	}
	s.store(name, p)
	return nil
}

// prepareAgain repeats prepare after a try that was undone: the numbers that it took are used up.
func (s *sequences) prepareAgain(name string, d sequenceNumbers, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	p := s.get(name)
	if p.certain = false; p.unsettable {
		return nil
	}
	s.store(name, p)
	return s.set(name, d, c)
}

// restore records the numbers that an operation took. It sets the sequence forward if it had given higher numbers
// before, or back if the operation took none. If another running operation needs the current position, that operation
// does so instead.
func (s *sequences) restore(name string, d sequenceNumbers, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	other := s.removeUser(name, c)
	p := s.get(name)
	if p.unsettable {
		return nil
	}
	given := slices.Max(d.values)
	if other {
		p.greatest = max(p.greatest, given)
		s.store(name, p)
		return nil
	}
	if p.set {
		said, err := c.value(formatQuery(lastGiven, d.sequence, d.values[0]))
		if err != nil {
			return err
		}
		// No number was taken: the row existed, or named its number.
		if given, err = strconv.ParseInt(said, 10, 64); err != nil {
			p.set, p.certain = false, false
			s.store(name, p)
			_, err = c.value(formatQuery(setNext, d.sequence, p.next))
			return err
		}
	}
	p.set = false
	if given < p.greatest {
		p.certain = false
		s.store(name, p)
		_, err := c.value(formatQuery(setBehind, d.sequence, p.greatest))
		return err
	}
	p.greatest, p.next, p.certain = given, given+max(d.increment, 1), p.plain && d.increment != 0
	s.store(name, p)
	return nil
}
