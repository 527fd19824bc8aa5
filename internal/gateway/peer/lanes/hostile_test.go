package lanes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":             nil,
		"lane 9":            {MaxLanes + 1, 0, formBegin},
		"misfit nowhere":    {misfit},
		"misfit of lane 9":  {misfit | MaxLanes + 1},
		"41":                {0x41},
		"no number":         {1},
		"half a number":     {1, 0x80},
		"a long number":     {1, 0x80, 0x00, formBegin},
		"too long a number": append(append([]byte{1}, bytes.Repeat([]byte{0xff}, 10)...), formBegin),
		"nothing more":      {1, 0},
		"plain":             {1, 0, formPlain, 1, 2, 3},
		"version 1":         {1, 0, 0x11, 0},
	} {
		if m, err := Parse(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	b := append(appendHead(nil, 7, math.MaxUint64), formNext)
	if m, err := Parse(b); err != nil || m.lane != 7 || m.number != math.MaxUint64 || m.begins() || m.Alone {
		t.Errorf("%+v, %v", m, err)
	}
	for first, want := range map[byte]Laned{noLane: {wanted: true, lane: -1}, noMatter: {lane: -1}, misfit | 3: {wanted: true, lane: 2}} {
		m, err := Parse([]byte{first, 0x10})
		if err != nil || !m.Alone || m.wanted != want.wanted || m.lane != want.lane || len(m.Body) != 1 {
			t.Errorf("%02x: %+v, %v", first, m, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, rooms := range [][]byte{{40}, {50, 41}, {0, 0, 44}, {40, 40, 40, 40, 40, 40, 40, 50}} {
		text := formatRooms(rooms)
		if got, ok := parseRooms(text); !ok || !bytes.Equal(got[:len(rooms)], rooms) {
			t.Errorf("%v: %q, %v, %v", rooms, text, got, ok)
		}
	}
	for _, text := range []string{"", "39", "51", "-1", "40,", "40,40,40,40,40,40,40,40,40", "40 ", "4294967336"} {
		if got, ok := parseRooms(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, a := range []assignment{{lane: 0, room: 40}, {lane: 7, room: 50, anew: true}} {
		if got, ok := parseAssignment(a.String()); !ok || got != a {
			t.Errorf("%v came back as %v", a, got)
		}
	}
	for _, text := range []string{"", "0", "8,40", "0,0", "0,39", "0,40,", "0,40,old", "0,40,new,new", "-1,40", "999,40"} {
		if got, ok := parseAssignment(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
	for text, want := range map[string]int64{"0": 0, "17": 17, "": -1, "-1": -1, "x": -1, "99999999999999999999": -1} {
		if got := ParseOpened(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// Invalid messages of a hostile peer are refused, and other lanes are unaffected.
func TestHostile(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	p.first(t, message(r, 50))
	o, i := p.near.Writers.Request(), p.far.Readers.Request()
	good := seal(o, message(r, 50))
	mustOpen(t, i, good)
	body := good.bytes[2:]
	for name, c := range map[string]struct {
		bytes []byte
		want  error
	}{
		"a lane that there is not": {append(appendHead(nil, 3, 0), body...), ErrOrder},
		"again":                    {good.bytes, ErrOrder},
		"a later one":              {append(appendHead(nil, 0, 9), append([]byte{formNext}, body[1:]...)...), ErrOrder},
		"an early beginning":       {append(appendHead(nil, 0, 0), body...), ErrOrder},
		"too long":                 {binary.AppendUvarint(append(appendHead(nil, 0, 1), formNext), 1<<40), ErrTooLarge},
	} {
		m, err := Parse(c.bytes)
		if err != nil {
			t.Fatal(name, err)
		}
		if out, err := i.Open([]byte("x"), m, 1<<20); !errors.Is(err, c.want) || string(out) != "x" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	mustOpen(t, i, seal(o, message(r, 50))) // nothing has changed
	m, _ := Parse(append(appendHead(nil, 0, 2), formNext, 0xff, 0xff, 0x03, 1, 2, 3, 4, 1, 5))
	if _, err := i.Open(nil, m, 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	if err := open(t, i, seal(o, message(r, 50))); !errors.Is(err, ErrOrder) {
		t.Errorf("behind damage: %v", err)
	}
	o.Done(i.Opened())
	o, i = p.near.Writers.Request(), p.far.Readers.Request()
	mustOpen(t, i, seal(o, message(r, 50))) // and goes on
}

// A writer that exceeds its room loses its session, and costs the reader no memory.
func TestWriterExceeds(t *testing.T) {
	p, r := newPair(plenty, 1<<20), rng()
	p.first(t, message(r, 50))
	l := &p.far.Readers.lanes[0]
	p.far.Readers.ledger.resize(&l.held, 1000)
	p.farHas.Take(p.farHas.left())
	o, i := p.near.Writers.Request(), p.far.Readers.Request()
	mustOpen(t, i, seal(o, message(r, 50)))
	if n := l.session.Bytes(); l.begun || n > 0 {
		t.Errorf("the session lives, with %d bytes", n)
	}
	if err := open(t, i, seal(o, message(r, 50))); !errors.Is(err, ErrOrder) {
		t.Errorf("behind it: %v", err)
	}
}

// A reply's message in the lane of another call is refused.
func TestForeignLane(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	for range 3 {
		in := p.near.Readers.Reply()
		out := p.far.Writers.Reply(p.far.Writers.Assigned(in.Header()))
		s := seal(out, message(r, 50))
		if other := p.near.Readers.Reply(); s.sealed {
			if err := open(t, other, s); !errors.Is(err, ErrOrder) {
				t.Errorf("in another call: %v", err)
			}
		}
		mustOpen(t, in, s)
		out.Sent(true)
		in.Done(true)
	}
}

// FuzzOpen sends arbitrary messages: each is refused, or matches its checksum.
func FuzzOpen(f *testing.F) {
	r := rng()
	p := newPair(plenty, plenty)
	p.first(f, message(r, 20))
	o := p.near.Writers.Request()
	a, b := seal(o, message(r, 20)).bytes, seal(o, message(r, 20)).bytes
	f.Add(a, b)
	f.Add(b, a)
	f.Add([]byte{0, 0x10, 1}, []byte{0x81, 0x10})
	f.Add(a, binary.AppendUvarint(append(appendHead(nil, 0, 1), formNext), 1<<24))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		p := newPair(plenty, plenty)
		p.far.Readers.add(100)
		i := p.far.Readers.Request()
		for _, x := range [][]byte{a, b} {
			m, err := Parse(x)
			if err != nil || m.Alone {
				continue
			}
			out, err := i.Open(nil, m, 1<<16)
			if len(out) > 1<<16 || err != nil && len(out) > 0 {
				t.Errorf("%d bytes, %v", len(out), err)
			}
		}
		p.far.Close()
		if p.farHas.left() != plenty {
			t.Error("not all was given back")
		}
	})
}

func TestRooms(t *testing.T) {
	for room, want := range map[byte]int64{0: 0, 40: 1 << 20, 41: 3 << 19, 42: 2 << 20, 49: 24 << 20, 50: 32 << 20} {
		if got := bytesOf(room); got != want {
			t.Errorf("%d: %d bytes", room, got)
		}
	}
	for n, want := range map[int]byte{0: 40, 1 << 18: 41, 1 << 20: 45, 5 << 20: 50, 1 << 30: 50} {
		if got := roomFor(n); got != want {
			t.Errorf("for a message of %d bytes %d", n, got)
		}
	}
}

// Calls in one lane wait for each other, and hold no turns that other calls need.
func TestCrowdedLane(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	p.first(t, message(r, 50))
	s := seal(p.near.Writers.Request(), message(r, 50))
	m, err := Parse(s.bytes)
	if err != nil || m.Alone {
		t.Fatal(err)
	}
	l := &p.far.Readers.lanes[m.lane]
	l.mu.Lock() // as one that is being opened
	var crowd sync.WaitGroup
	for range 2 * cap(p.farS.turns) {
		crowd.Go(func() { _, _ = p.far.Readers.Request().Open(nil, m, len(s.raw)) })
	}
	time.Sleep(50 * time.Millisecond)
	select {
	case p.farS.turns <- struct{}{}:
		<-p.farS.turns
	case <-time.After(3 * time.Minute):
		t.Error("those who wait for a lane have all turns")
	}
	l.mu.Unlock()
	crowd.Wait()
}
