package plan

import (
	"cmp"
	"context"
	"slices"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/foreign"
)

// A subject is a value as it is held, and what of it is sealed: the same bytes, or what another library has
// compressed into them.
type subject struct {
	held    []byte
	content []byte
	format  foreign.Format // of that library; 0: none
}

// asHeld takes values as they are.
func asHeld(values [][]byte) []subject {
	all := make([]subject, len(values))
	for i, v := range values {
		all[i] = subject{held: v, content: v}
	}
	return all
}

func contents(all []subject) [][]byte {
	values := make([][]byte, len(all))
	for i, v := range all {
		values[i] = v.content
	}
	return values
}

// unchanged reports that a value is stored as it is: in its own memory.
func (v subject) unchanged(stored []byte) bool {
	return len(v.held) == 0 || &stored[0] == &v.held[0]
}

// What is opened of a group.
const (
	openedBytes = 32 << 20 // of content that is held of a group, about
	mostAgain   = 100      // values that are compressed again,
	againBytes  = 2 << 20  // and of their contents
	glideLeaves = 64       // bytes below which GLIDE compresses nothing, unless it was told otherwise
)

// openedSample is a sample whose values were opened where they are a library's.
type openedSample struct {
	values   []subject
	sides    []side
	formats  map[foreign.Format]int
	unopened int
	short    int // that look like no library's
}

// open opens values in the order in which they were drawn, until there is enough.
func (s *sample) open(ctx context.Context) *openedSample {
	order := make([]int, len(s.values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.chance[a], s.chance[b]) })
	t := &openedSample{formats: make(map[foreign.Format]int)}
	bytes := 0
	for _, at := range order {
		if bytes > openedBytes || ctx.Err() != nil {
			break
		}
		v := openValue(s.values[at], cinch.DefaultMaxRaw)
		switch _, looks := foreign.Recognise(v.held); {
		case v.format != 0:
			t.formats[v.format]++
			bytes += len(v.content)
		case looks:
			t.unopened++
		case len(v.held) < glideLeaves:
			t.short++
		}
		t.values, t.sides = append(t.values, v), append(t.sides, s.sides[at])
	}
	return t
}

// openValue opens what is a library's and holds no more than so many bytes.
func openValue(held []byte, most int) subject {
	if f, ok := foreign.Recognise(held); ok {
		if content, err := foreign.Open(nil, f, held, most); err == nil {
			return subject{held, content, f}
		}
	}
	return subject{held: held, content: held}
}

// again counts of some values those that clients would get back byte for byte, which a packer seals without being told.
func (t *openedSample) again(e *codec.Engine) (exact, of int) {
	bytes := 0
	for _, v := range t.values {
		if v.format == 0 {
			continue
		}
		if of == mostAgain || bytes > againBytes {
			break
		}
		of, bytes = of+1, bytes+len(v.content)
		if _, ok := foreign.LevelOf(v.format, v.held, v.content, e); ok {
			exact++
		}
	}
	return exact, of
}

// longer is how many times as long values are when they are opened.
func (t *openedSample) longer() float64 {
	held, content := 0, 0
	for _, v := range t.values {
		held, content = held+len(v.held), content+len(v.content)
	}
	return float64(content) / float64(max(held, 1))
}
