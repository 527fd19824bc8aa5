package store

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// countingStore is a store of dictionaries that counts the lookups.
type countingStore struct {
	dicts         map[uint32]*codec.Dict
	asked, listed int
}

func (s *countingStore) ask(number uint32) func() (*codec.Dict, error) {
	return func() (*codec.Dict, error) {
		s.asked++
		if d := s.dicts[number]; d != nil {
			return d, nil
		}
		return nil, envelope.ErrDictMissing
	}
}

func (s *countingStore) numbers() (map[uint32]struct{}, error) {
	s.listed++
	all := map[uint32]struct{}{}
	for n := range s.dicts {
		all[n] = struct{}{}
	}
	return all, nil
}

func (s *countingStore) put(t *testing.T, i int) uint32 {
	t.Helper()
	d, err := codec.NewDict(fmt.Appendf(nil, "dictionary of the number %d", i))
	if err != nil {
		t.Fatal(err)
	}
	s.dicts[d.Number()] = d
	return d.Number()
}

// A flood of unknown numbers costs the store a limited number of lookups a second. Dictionaries that it has, or
// gets during the flood, are found.
func TestFloodOfUnknownNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countingStore{dicts: map[uint32]*codec.Dict{}}
		l := &LookupLimiter{TTL: 2 * time.Second, Numbers: s.numbers}
		known := s.put(t, 1)
		var late uint32
		const seconds = 30
		for i := range uint32(seconds * 1000) {
			if i == 10_000 {
				late = s.put(t, 2)
			}
			if _, err := l.Do(i+1, s.ask(i+1)); !errors.Is(err, envelope.ErrDictMissing) && !errors.Is(err, ErrLookupLimit) {
				t.Fatal(err)
			}
			if i == 5000 {
				if _, err := l.Do(known, s.ask(known)); err != nil {
					t.Errorf("what is there, in the flood: %v", err)
				}
			}
			if i == 13_000 {
				if _, err := l.Do(late, s.ask(late)); err != nil {
					t.Errorf("what came 3 s ago: %v", err)
				}
			}
			time.Sleep(time.Millisecond)
		}
		if most := missBurst + seconds*missRate + 3; s.asked > most || s.listed > seconds+1 {
			t.Errorf("asked %d times, for all numbers %d times", s.asked, s.listed)
		}
	})
}

func TestFoundOnesAreNotLimited(t *testing.T) {
	s := &countingStore{dicts: map[uint32]*codec.Dict{}}
	l := &LookupLimiter{TTL: time.Hour, Numbers: s.numbers}
	for i := range 5 * missBurst {
		if number := s.put(t, i); number != 0 {
			if _, err := l.Do(number, s.ask(number)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.listed != 0 {
		t.Errorf("%d lists", s.listed)
	}
}

// Tools that an operator runs set no Numbers: then lookups are not limited, only the failures remembered are.
func TestFailuresRememberedAreBounded(t *testing.T) {
	l := &LookupLimiter{TTL: time.Hour}
	s := &countingStore{}
	for number := range uint32(3 * maxFailures) {
		if _, err := l.Do(number, s.ask(number)); !errors.Is(err, envelope.ErrDictMissing) {
			t.Fatal(err)
		}
	}
	if len(l.failures) > maxFailures || s.asked != 3*maxFailures {
		t.Errorf("%d numbers are remembered, %d asked", len(l.failures), s.asked)
	}
}

// A missing number is not looked up again within TTL. After an error of the whole store no number is looked up for
// half of TTL.
func TestFailuresAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countingStore{}
		l := &LookupLimiter{TTL: 2 * time.Second, Numbers: s.numbers}
		for range 20 {
			_, _ = l.Do(7, s.ask(7))
			time.Sleep(300 * time.Millisecond)
		}
		if s.asked != 3 {
			t.Errorf("asked %d times in 6 s", s.asked)
		}
		down := errors.New("connection refused")
		calls := 0
		for i := range uint32(50) {
			if _, err := l.Do(100+i, func() (*codec.Dict, error) { calls++; return nil, down }); !errors.Is(err, down) {
				t.Error(err)
			}
		}
		if calls != 1 {
			t.Errorf("a store that is down was asked %d times", calls)
		}
	})
}
