package plan

import (
	"cmp"
	"context"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// A subject is a stored value with the content to compress: the same bytes, or what another library has
// compressed into them.
type subject struct {
	held    []byte
	content []byte
	format  clientformat.Format // of the library; 0: none
}

// subjectsOf returns subjects whose content is the values themselves.
func subjectsOf(values [][]byte) []subject {
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

// unchanged reports whether a value is stored unchanged, in its own memory.
func (v subject) unchanged(stored []byte) bool {
	return len(v.held) == 0 || &stored[0] == &v.held[0]
}

// Limits of what is decompressed of a group.
const (
	openedBytes          = 32 << 20 // approximate limit of the content held of a group
	maxRecompressed      = 100      // values to compress again,
	maxRecompressedBytes = 2 << 20  // and bytes of their content
	glideLeaves          = 64       // below this GLIDE compresses nothing by default
)

// openedSample is a sample in which values of a library are decompressed.
type openedSample struct {
	values   []subject
	sides    []side
	formats  map[clientformat.Format]int
	unopened int
	short    int // values in no format, shorter than glideLeaves
}

// open decompresses values in the order of their chance, until there are enough.
func (s *sample) open(ctx context.Context) *openedSample {
	order := make([]int, len(s.values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.chance[a], s.chance[b]) })
	t := &openedSample{formats: make(map[clientformat.Format]int)}
	bytes := 0
	for _, at := range order {
		if bytes > openedBytes || ctx.Err() != nil {
			break
		}
		v := openValue(s.values[at], envelope.DefaultMaxRaw)
		switch _, looks := clientformat.Recognise(v.held); {
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

// openValue decompresses a library's value with at most most bytes of content.
func openValue(held []byte, most int) subject {
	if f, ok := clientformat.Recognise(held); ok {
		if content, err := clientformat.Open(nil, f, held, most); err == nil {
			return subject{held, content, f}
		}
	}
	return subject{held: held, content: held}
}

// countExact counts, for some values, those that would be restored byte for byte, which a packer compresses
// without --allow-recode.
func (t *openedSample) countExact(e *codec.Engine) (exact, of int) {
	bytes := 0
	for _, v := range t.values {
		if v.format == 0 {
			continue
		}
		if of == maxRecompressed || bytes > maxRecompressedBytes {
			break
		}
		of, bytes = of+1, bytes+len(v.content)
		if _, ok := clientformat.LevelOf(v.format, v.held, v.content, e); ok {
			exact++
		}
	}
	return exact, of
}

// expansion returns the ratio of decompressed to stored length.
func (t *openedSample) expansion() float64 {
	held, content := 0, 0
	for _, v := range t.values {
		held, content = held+len(v.held), content+len(v.content)
	}
	return float64(content) / float64(max(held, 1))
}
