package postgres

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// sequences is what a target's sequences have given, as far as it is known. Before an operation that took numbers in production is sent to a target,
// the sequence there is set to the first of them (down). Behind it, it is set so that what comes next is higher than all that was given (up). It
// is safe for concurrent use.
type sequences struct {
	moving sync.Mutex           // held while sequences are set, but not while operations are under way
	users  map[string][]session // that have an operation under way for which they have set one, the last one at the end; guarded by moving

	mu    sync.Mutex
	known map[string]position
}

// session asks a target about sequences.
type session interface {
	value(text string) (string, error)
}

// mostSequences bounds how many are known.
const mostSequences = 10_000

// position of a sequence.
type position struct {
	greatest int64 // that was given
	next     int64
	sure     bool // that next comes next
	plain    bool // a session takes one number at a time
	set      bool // it was set for the operation that is under way
	away     bool // it can't be set by this user, or counts down
}

// stirred notes what operations that tell nothing may have done.
func (s *sequences) stirred(how stir) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch how {
	case stirsAll:
		clear(s.known)
	case stirsOn:
		for name, p := range s.known {
			p.sure = false
			s.known[name] = p
		}
	}
}

func (s *sequences) of(name string) position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known := s.known[name]; known {
		return p
	}
	return position{greatest: math.MinInt64, next: math.MinInt64}
}

func (s *sequences) note(name string, p position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= mostSequences {
		s.known = map[string]position{}
	}
	s.known[name] = p
}

// settable are sequences that this user may read and set to $n, by the name $s. They are set without a call of nextval, so currval and lastval stay.
const settable = `FROM pg_catalog.pg_sequence WHERE seqrelid = pg_catalog.to_regclass('$s') AND seqincrement > 0 AND $n BETWEEN seqmin AND seqmax
	AND pg_catalog.has_sequence_privilege(seqrelid, 'UPDATE') AND pg_catalog.has_sequence_privilege(seqrelid, 'USAGE, SELECT')`

const (
	setDown = `SELECT pg_catalog.concat_ws(' ', seqcache, seqstart, coalesce(pg_catalog.pg_sequence_last_value(seqrelid)::text, '-'),
		pg_catalog.setval(seqrelid::pg_catalog.regclass, $n, false)) ` + settable
	lastGiven = `SELECT pg_catalog.pg_sequence_last_value(seqrelid) ` + settable
	setNext   = `SELECT pg_catalog.setval(seqrelid::pg_catalog.regclass, $n, false) ` + settable
	setBehind = `SELECT pg_catalog.setval(seqrelid::pg_catalog.regclass, $n + seqincrement, false) ` + settable + ` AND $n + seqincrement <= seqmax`
)

func about(text, sequence string, n int64) string {
	text = strings.ReplaceAll(text, "$n", strconv.FormatInt(n, 10))
	return strings.ReplaceAll(text, "$s", strings.ReplaceAll(sequence, "'", "''"))
}

// enter notes that a session sets a sequence for what it sends next.
func (s *sequences) enter(name string, c session) {
	s.leave(name, c)
	if s.users == nil {
		s.users = map[string][]session{}
	}
	s.users[name] = append(s.users[name], c)
}

// leave undoes enter. It reports whether another session has set the sequence since, for what it has under way.
func (s *sequences) leave(name string, c session) (other bool) {
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

// drop is instead of up for an operation behind which nothing can be set.
func (s *sequences) drop(name string, _ draw, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.leave(name, c)
	return nil
}

// down sets a sequence to what production took for an operation that is sent next. The name is that under which it is known.
func (s *sequences) down(name string, d draw, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	return s.set(name, d, c)
}

// set is down where moving is held.
func (s *sequences) set(name string, d draw, c session) error {
	s.enter(name, c)
	p := s.of(name)
	if p.set = false; p.sure && p.next == d.numbers[0] {
		s.note(name, p)
		return nil
	}
	said, err := c.value(about(setDown, d.sequence, d.numbers[0]))
	if err != nil {
		return err
	}
	var cache, start int64
	var last string
	if _, err := fmt.Sscan(said, &cache, &start, &last); err != nil {
		p.away = true // no such row
		s.note(name, p)
		return nil
	}
	p.set, p.sure, p.away, p.plain = true, false, false, cache == 1
	if given, err := strconv.ParseInt(last, 10, 64); err == nil {
		p.greatest = max(p.greatest, given)
		p.next = p.greatest + 1
	} else if p.next == math.MinInt64 {
		p.next = start
	}
	s.note(name, p)
	return nil
}

// again sets a sequence down once more, since what was undone has taken numbers.
func (s *sequences) again(name string, d draw, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	p := s.of(name)
	if p.sure = false; p.away {
		return nil
	}
	s.note(name, p)
	return s.set(name, d, c)
}

// up notes what an operation took, and sets the sequence up again if it had given more, or if the operation took nothing after all. Where another
// operation, which is under way, needs the sequence as it is, that one does so.
func (s *sequences) up(name string, d draw, c session) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	other := s.leave(name, c)
	p := s.of(name)
	if p.away {
		return nil
	}
	given := slices.Max(d.numbers)
	if other {
		p.greatest = max(p.greatest, given)
		s.note(name, p)
		return nil
	}
	if p.set {
		said, err := c.value(about(lastGiven, d.sequence, d.numbers[0]))
		if err != nil {
			return err
		}
		if given, err = strconv.ParseInt(said, 10, 64); err != nil { // a row that was there, or that named its number
			p.set, p.sure = false, false
			s.note(name, p)
			_, err = c.value(about(setNext, d.sequence, p.next))
			return err
		}
	}
	p.set = false
	if given < p.greatest {
		p.sure = false
		s.note(name, p)
		_, err := c.value(about(setBehind, d.sequence, p.greatest))
		return err
	}
	p.greatest, p.next, p.sure = given, given+max(d.increment, 1), p.plain && d.increment != 0
	s.note(name, p)
	return nil
}
