package tarantool

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

// StoredBytes sums over the shards what tuples take. If some are on disk it is unknown.
func TestStoredBytes(t *testing.T) {
	s := newShards(t, 2)
	s.set(0, 1)
	g := s.group(0)
	before, servers, err := g.StoredBytes(t.Context())
	if err != nil || servers != 2 || before <= 0 {
		t.Fatalf("%d bytes in %d servers: %v", before, servers, err)
	}
	const values, each = 2000, 1000
	for _, c := range s.conn {
		lua(t, c, fmt.Sprintf(`local s = box.schema.space.create('docs') s:create_index('pk')
			for i = 1, %d do s:insert{i, string.rep('x', %d)} end`, values, each))
	}
	if after, _, err := g.StoredBytes(t.Context()); err != nil || after-before < 2*values*each || after-before > 3*values*each {
		t.Errorf("%d bytes of values are %d in %d, %v", 2*values*each, after-before, after, err)
	}
	lua(t, s.conn[1], `local s = box.schema.space.create('cold', {engine = 'vinyl'}) s:create_index('pk') s:insert{1, 'x'}`)
	if _, _, err := g.StoredBytes(t.Context()); !errors.Is(err, errMemoryUnknown) {
		t.Errorf("with tuples in vinyl: %v", err)
	}
}

// DictCost returns what a dictionary takes of the server's memory, or slightly more.
func TestDictCost(t *testing.T) {
	s := newShards(t, 1)
	s.set(0)
	g, ctx := s.group(0), t.Context()
	for i, size := range []int{4 << 10, 64 << 10, 112 << 10} {
		before, _, err := g.StoredBytes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		x, err := codec.NewDict(codectest.Random(size, uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Publish(ctx, x); err != nil {
			t.Fatal(err)
		}
		after, _, err := g.StoredBytes(ctx)
		if cost := DictCost(x); err != nil || cost < float64(after-before) || cost > 1.2*float64(after-before)+recordCost {
			t.Errorf("a dictionary of %d bytes takes %d and is counted as %.0f: %v", size, after-before, cost, err)
		}
	}
}
