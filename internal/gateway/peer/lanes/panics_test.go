package lanes

import (
	"math/rand/v2"
	"testing"
)

// faultyMemory panics once it is armed.
type faultyMemory struct {
	purse
	armed bool
}

func (m *faultyMemory) Take(n int64) bool {
	if m.armed {
		m.armed = false
		panic("no memory")
	}
	return m.purse.Take(n)
}

// After a panic while a message is compressed or decompressed nothing is locked, and the lane begins a new session, so
// that its two ends don't differ.
func TestPanicsInALane(t *testing.T) {
	for _, where := range []string{"sealing", "opening"} {
		nearHas, farHas := &faultyMemory{purse: purse{free: plenty}}, &faultyMemory{purse: purse{free: plenty}}
		p := &pair{nearS: NewShared(), farS: NewShared()}
		p.near, p.far = New(nearHas, p.nearS), New(farHas, p.farS)
		rng := rand.New(rand.NewPCG(1, 2))
		p.first(t, message(rng, 20))
		var panicked any
		for n := 20; panicked == nil && n < 20_000; n *= 2 { // until a session needs more memory
			nearHas.armed, farHas.armed = where == "sealing", where == "opening"
			panicked = p.exchange(t, message(rng, n))
			nearHas.armed, farHas.armed = false, false
		}
		if panicked == nil {
			t.Fatalf("%s: nothing has panicked", where)
		}
		for range 3 {
			if panicked := p.exchange(t, message(rng, 20)); panicked != nil {
				t.Fatal(panicked)
			}
		}
	}
}

// exchange sends a call with one message, and returns the recovered panic, or nil.
func (p *pair) exchange(t *testing.T, raw []byte) (panicked any) {
	t.Helper()
	o, i := p.near.Writers.Request(), p.far.Readers.Request()
	defer func() {
		panicked = recover()
		if panicked != nil {
			o.Done(-1)
		} else {
			o.Done(i.Opened())
		}
	}()
	p.rooms(o)
	mustOpen(t, i, seal(o, raw))
	return nil
}
