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

// A panic while a message is sealed or opened leaves nothing locked, and no session whose two ends differ: the lane begins anew.
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

// exchange sends one call of one message, whose ends recover as calls do, and returns what they have recovered.
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
