package history

import "slices"

// Values are guessed from the previous ones. Lists of values are guessed from the previous list, or from their place:
// of these two guesses, the one that was recently right when the other one was not comes first.

// hits holds how often guesses of lists are right.
type hits struct {
	p      [2][2]prob // by the kind of guess, and whether the last value was guessed
	was    uint8
	prefer int8 // below 0: byOrder comes first
	worth  int  // number of further new lists until guessing stops
}

const (
	byPlace = iota
	byOrder
)

func (h *hits) begin() {
	h.worth = firstListWorth
	even(h.p[0][:], h.p[1][:])
}

// order returns which guess comes first.
func (h *hits) order() (first, second int) {
	if h.prefer < 0 {
		return byOrder, byPlace
	}
	return byPlace, byOrder
}

// learn records whether the second guess was right, after the first one was not.
func (h *hits) learn(second int, right bool) {
	if !right {
		return
	}
	if second == byOrder {
		h.prefer = max(h.prefer-1, -8)
	} else {
		h.prefer = min(h.prefer+1, 7)
	}
}

const (
	saltOrder = 0x1B873593
	saltList  = 0x38495AB5
	saltSame  = 0xCC9E2D51
)

// spot is the context of a guess: a run of node n, after the value a, with b as the last value that was not
// guessed.
type spot struct {
	n     uint16
	first bool // of its run
	tried bool
	a, b  uint32
	guess uint32
}

func (m *model) hashOf(s *spot) uint32 { return join(join(s.a, s.b), uint32(s.n)^saltOrder) }

// guess returns a likely value, or 0 if there is none.
func (m *model) guess(s *spot) uint32 {
	a := &m.values[s.a]
	if !s.first && a.firm && m.isOf(a.next, s.n) {
		return a.next
	}
	if v := m.guessed.at(m.hashOf(s)); v != nil && m.isOf(*v, s.n) {
		return *v
	}
	next := a.next
	if s.first {
		next = a.head
	}
	if !m.isOf(next, s.n) && !s.first && a.live {
		next = m.blocks[a.block].after
	}
	if m.isOf(next, s.n) {
		return next
	}
	return 0
}

// codeGuess codes whether a value is s.guess, and reports it. A writer passes right to compare them.
func (m *model) codeGuess(s *spot, right func(uint32) bool) bool {
	x := m.nodes[s.n].forms
	if x.worth <= 0 {
		return false
	}
	s.tried, s.guess = true, m.guess(s)
	p := &x.hits[0]
	if !s.first {
		p = &x.hits[1]
	}
	hit := s.guess != 0 && m.flag(&p[x.was], !m.reads && right(s.guess))
	if !s.first {
		m.values[s.a].followed(hit, s.guess)
	}
	if !hit {
		x.worth--
		x.was = 0
		return false
	}
	x.worth = min(x.worth+hitWorth, mostWorth)
	x.was = 1
	x.met()
	m.values[s.guess].used = true
	return true
}

// followed records a guess after v. v is firm if its next value was guessed, and right: no other lookup is needed the
// next time.
func (v *value) followed(right bool, guess uint32) { v.firm = right && guess == v.next }

// learn records a value that was not guessed.
func (m *model) learn(s *spot, v uint32) {
	if v == 0 || !s.tried {
		return
	}
	m.guessed.put(m.hashOf(s), v)
	if s.a == 0 {
		return
	}
	a := &m.values[s.a]
	if s.first {
		a.head = v
		return
	}
	a.next = v
	if a.live {
		m.blocks[a.block].after = v
	}
}

// codeList codes whether a run is a guessed list, and returns that list, or 0. A writer passes right to compare them.
func (m *model) codeList(n uint16, here uint32, right func(uint32) bool) uint32 {
	x := m.nodes[n].forms
	h := &x.lists
	if h.worth <= 0 {
		return 0
	}
	first, second := h.order()
	v := m.guessList(n, here, first)
	missed := v == 0 || !m.flag(&h.p[first][h.was], !m.reads && right(v))
	if missed {
		wrong := v
		if v = m.guessList(n, here, second); v == wrong {
			v = 0
		}
		if v != 0 && !m.flag(&h.p[second][h.was], !m.reads && right(v)) {
			v = 0
		}
		h.learn(second, v != 0)
	}
	h.was = 0
	if v == 0 {
		return 0
	}
	h.was = 1
	if missed {
		m.teachList(n, here, first, v)
	}
	x.met()
	h.worth = min(h.worth+hitWorth, mostWorth)
	x.lastList = v
	m.lists[v].used = true
	for _, id := range m.lists[v].members {
		m.values[id].used = true
	}
	return v
}

func (m *model) guessList(n uint16, here uint32, by int) uint32 {
	v := m.lists[m.nodes[n].lastList].next
	if by == byPlace {
		p := m.listed.at(join(join(here, uint32(n)), saltList))
		if p == nil {
			return 0
		}
		v = *p
	}
	if m.isListOf(v, n) {
		return v
	}
	return 0
}

func (m *model) teachList(n uint16, here uint32, by int, v uint32) {
	if by == byPlace {
		m.listed.put(join(join(here, uint32(n)), saltList), v)
	} else if last := m.nodes[n].lastList; last != 0 {
		m.lists[last].next = v
	}
}

// learnList records the members of a run that was not guessed.
func (m *model) learnList(n uint16, here uint32, members []uint32, hash uint32) {
	h := &m.nodes[n].lists
	if h.worth <= 0 {
		return
	}
	same := join(hash, uint32(n)^saltSame)
	v := m.sameList(same, n, members)
	if v == 0 {
		h.worth--
		v = m.keepList(n, members, hash)
		m.listed.put(same, v)
	}
	m.teachList(n, here, byPlace, v)
	m.teachList(n, here, byOrder, v)
	m.nodes[n].lastList = v
}

// sameList returns the list that has exactly these members, or 0.
func (m *model) sameList(hash uint32, n uint16, members []uint32) uint32 {
	p := m.listed.at(hash)
	if p == nil || !m.isListOf(*p, n) || !slices.Equal(m.lists[*p].members, members) {
		return 0
	}
	return *p
}
