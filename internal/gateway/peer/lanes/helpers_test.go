package lanes

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// purse is a Memory of a fixed number of bytes.
type purse struct {
	mu   sync.Mutex
	free int64
}

func (p *purse) Take(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.free {
		return false
	}
	p.free -= n
	return true
}

func (p *purse) Give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
}

func (p *purse) left() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

const plenty = 1 << 30

// pair is the lanes of both ends of a link.
type pair struct {
	near, far   *Ends
	nearHas     *purse
	farHas      *purse
	nearS, farS *Shared
}

func newPair(nearBytes, farBytes int64) *pair {
	p := &pair{nearHas: &purse{free: nearBytes}, farHas: &purse{free: farBytes}, nearS: NewShared(), farS: NewShared()}
	p.near, p.far = New(p.nearHas, p.nearS), New(p.farHas, p.farS)
	return p
}

// message returns a message of n series, which resemble those of other messages.
func message(rng *rand.Rand, n int) (all []byte) {
	field := func(b []byte, number byte, content []byte) []byte {
		return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(content))), content...)
	}
	first := rng.IntN(50)
	for i := range n {
		series := field(nil, 1, fmt.Appendf(nil, "series_%d_of_some_length", first+i))
		series = binary.AppendUvarint(append(series, 2<<3), rng.Uint64N(1<<30))
		all = field(all, 1, series)
	}
	return all
}

// sent is a message as it is sent, and before compression.
type sent struct {
	bytes, raw []byte
	sealed     bool
}

func seal(o *Out, raw []byte) sent {
	b, sealed := o.Append(nil, raw)
	return sent{b, raw, sealed}
}

// open decompresses a sent message and checks it. Messages of version 1 are not decompressed.
func open(t testing.TB, i *In, s sent) error {
	t.Helper()
	m, err := Parse(s.bytes)
	if err != nil {
		t.Fatalf("%x: %v", s.bytes, err)
	}
	if m.Alone == s.sealed {
		t.Fatalf("%x was sealed: %v", s.bytes, s.sealed)
	}
	if m.Alone {
		i.OpenedAlone(m, len(s.raw))
		return nil
	}
	out, err := i.Open([]byte("before"), m, len(s.raw))
	if err == nil && string(out) != "before"+string(s.raw) {
		t.Fatal("wrong bytes")
	}
	return err
}

func mustOpen(t testing.TB, i *In, s sent) {
	t.Helper()
	if err := open(t, i, s); err != nil {
		t.Fatal(err)
	}
}

// rooms passes the far end's rooms to the near end.
func (p *pair) rooms(o *Out) { o.Told([]string{p.far.Readers.Rooms()}) }

// first sends a request that asks for a lane, and gets one.
func (p *pair) first(t testing.TB, raw []byte) {
	t.Helper()
	o, i := p.near.Writers.Request(), p.far.Readers.Request()
	mustOpen(t, i, seal(o, raw))
	p.rooms(o)
	o.Done(i.Opened())
}
