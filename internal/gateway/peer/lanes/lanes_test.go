package lanes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

var rng = func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// The first message asks for a lane. Later ones, call after call, become ever smaller in it.
func TestLaneOfRequests(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	p.first(t, message(r, 50))
	var sizes []int
	for range 5 {
		o, i := p.near.Writers.Request(), p.far.Readers.Request()
		s := seal(o, message(r, 50))
		if !s.sealed {
			t.Fatal("not in a lane")
		}
		mustOpen(t, i, s)
		o.Done(i.Opened())
		sizes = append(sizes, len(s.bytes))
	}
	if sizes[4]*3 > sizes[0] {
		t.Errorf("sizes %v", sizes)
	}
	if n := p.nearS.Tally.Begun.Load(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// If it is not known that all messages of a call were decompressed, the lane continues with a new session.
func TestLaneBeginsAnew(t *testing.T) {
	for name, opened := range map[string]int64{"nobody knows": -1, "none": 0, "too many": 2} {
		p, r := newPair(plenty, plenty), rng()
		p.first(t, message(r, 50))
		o := p.near.Writers.Request()
		seal(o, message(r, 50)) // lost
		o.Done(opened)
		for range 3 {
			o, i := p.near.Writers.Request(), p.far.Readers.Request()
			mustOpen(t, i, seal(o, message(r, 50)))
			o.Done(i.Opened())
		}
		if n := p.nearS.Tally.Begun.Load(); n != 2 {
			t.Errorf("%s: %d sessions", name, n)
		}
	}
}

// A message of a call that was given up is refused after the lane's next message, and harmless before it.
func TestStaleMessages(t *testing.T) {
	for _, late := range []bool{false, true} {
		p, r := newPair(plenty, plenty), rng()
		p.first(t, message(r, 50))
		old, oldIn := p.near.Writers.Request(), p.far.Readers.Request()
		mustOpen(t, oldIn, seal(old, message(r, 20)))
		stale := seal(old, message(r, 20))
		old.Done(-1)
		if !late {
			mustOpen(t, oldIn, stale)
		}
		o, i := p.near.Writers.Request(), p.far.Readers.Request()
		mustOpen(t, i, seal(o, message(r, 20)))
		if late {
			if err := open(t, oldIn, stale); !errors.Is(err, ErrOrder) {
				t.Errorf("a stale message: %v", err)
			}
		}
		mustOpen(t, i, seal(o, message(r, 20)))
		o.Done(i.Opened())
	}
}

// A call that has ended compresses nothing in a lane that another call may hold.
func TestOverIsOver(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	p.first(t, message(r, 50))
	o := p.near.Writers.Request()
	seal(o, message(r, 20))
	o.Done(-1)
	if seal(o, message(r, 20)).sealed {
		t.Error("sealed by a call that is over")
	}
	o.Done(-1)
	in := p.near.Readers.Reply()
	in.Done(true)
	in.Done(true)
}

// Calls at the same time hold different lanes, and each that finds none asks for one.
func TestLanesAtATime(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	for want := range MaxLanes + 2 {
		var outs []*Out
		var ins []*In
		got := 0
		for range want + 1 {
			o, i := p.near.Writers.Request(), p.far.Readers.Request()
			s := seal(o, message(r, 30))
			if s.sealed {
				got++
			}
			mustOpen(t, i, s)
			outs, ins = append(outs, o), append(ins, i)
		}
		if got != min(want, MaxLanes) {
			t.Errorf("%d of %d calls have lanes", got, want+1)
		}
		for n, o := range outs {
			p.rooms(o)
			o.Done(ins[n].Opened())
		}
	}
}

// The lane that was freed last is taken first.
func TestBusyLaneLearns(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	a, b := p.near.Writers.Request(), p.near.Writers.Request()
	for _, o := range []*Out{a, b} {
		mustOpen(t, p.far.Readers.Request(), seal(o, message(r, 30)))
		p.rooms(o)
	}
	for range 10 {
		o, i := p.near.Writers.Request(), p.far.Readers.Request()
		mustOpen(t, i, seal(o, message(r, 30)))
		o.Done(i.Opened())
	}
	if n := p.nearS.Tally.Begun.Load(); n != 1 {
		t.Errorf("%d lanes were used", n)
	}
}

// The reader chooses the lanes of replies.
func TestLaneOfReplies(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	call := func(wantSealed, sentAll, clean bool) int {
		t.Helper()
		in := p.near.Readers.Reply()
		out := p.far.Writers.Reply(p.far.Writers.Assigned(in.Header()))
		s := seal(out, message(r, 50))
		if s.sealed != wantSealed {
			t.Fatalf("%q: sealed %v", in.Header(), s.sealed)
		}
		if sentAll && clean {
			mustOpen(t, in, s)
		}
		out.Sent(sentAll)
		in.Done(clean)
		return len(s.bytes)
	}
	call(false, true, true)
	large := call(true, true, true)
	if small := call(true, true, true); small >= large {
		t.Errorf("%d, then %d bytes", large, small)
	}
	call(true, true, false) // the near end has not read it: it says so
	call(true, true, true)
	call(true, false, true) // the far end has not sent it: the near one knows nothing of it
	call(true, true, true)
	if n := p.farS.Tally.Begun.Load(); n != 3 {
		t.Errorf("%d sessions", n)
	}
	if n := p.nearS.Tally.Refused.Load() + p.nearS.Tally.Broken.Load(); n != 0 {
		t.Errorf("%d messages were refused", n)
	}
}

// If the reader gives a call up, its lane goes to the next call, although the writer still has the first one.
func TestReplyLaneIsTaken(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	in := p.near.Readers.Reply()
	mustOpen(t, in, seal(p.far.Writers.Reply(p.far.Writers.Assigned(in.Header())), message(r, 50)))
	in.Done(true)

	in = p.near.Readers.Reply()
	old := p.far.Writers.Reply(p.far.Writers.Assigned(in.Header()))
	mustOpen(t, in, seal(old, message(r, 50)))
	in.Done(false) // cancelled, but the far end does not know yet
	in = p.near.Readers.Reply()
	out := p.far.Writers.Reply(p.far.Writers.Assigned(in.Header()))
	mustOpen(t, in, seal(out, message(r, 50)))
	if seal(old, message(r, 50)).sealed {
		t.Error("two calls seal in one lane")
	}
	old.Sent(true)
	mustOpen(t, in, seal(out, message(r, 50)))
	out.Sent(true)
	in.Done(true)
}

// A call that the reader has given up is answered after its lane has gone to another call: the reply gets no lane.
func TestLateReply(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	assigned := func(i *In) Assigned { return p.far.Writers.Assigned(i.Header()) }
	in := p.near.Readers.Reply()
	out := p.far.Writers.Reply(assigned(in))
	mustOpen(t, in, seal(out, message(r, 50))) // asks for a lane
	out.Sent(true)
	in.Done(true)

	first := p.near.Readers.Reply()
	named := assigned(first)
	first.Done(false)
	in = p.near.Readers.Reply()
	out = p.far.Writers.Reply(assigned(in))
	mustOpen(t, in, seal(out, message(r, 50)))
	late := p.far.Writers.Reply(named)
	if seal(late, message(r, 50)).sealed {
		t.Error("a reply that nobody reads was sealed in a lane")
	}
	late.Sent(true)
	mustOpen(t, in, seal(out, message(r, 50)))
	out.Sent(true)
	in.Done(true)

	in = p.near.Readers.Reply()
	out = p.far.Writers.Reply(assigned(in))
	mustOpen(t, in, seal(out, message(r, 50)))
	out.Sent(true)
	if p.far.Writers.Busy() {
		t.Error("a lane is counted as held")
	}
}

// Sessions stay within the memory of both ends, and give it back.
func TestLanesKeepToMemory(t *testing.T) {
	const large = 3000
	for name, c := range map[string]struct {
		near, far int64
		sealed    bool
	}{
		"plenty":                  {plenty, plenty, true},
		"the writer has none":     {0, plenty, false},
		"the reader has none":     {plenty, 0, false},
		"the reader has a little": {plenty, 1 << 20, true},
	} {
		p, r := newPair(c.near, c.far), rng()
		any := false
		for range 30 {
			o, i := p.near.Writers.Request(), p.far.Readers.Request()
			for _, n := range []int{20, large} {
				s := seal(o, message(r, n))
				any = any || s.sealed
				mustOpen(t, i, s)
			}
			p.rooms(o)
			o.Done(i.Opened())
			if p.nearHas.left() < 0 || p.farHas.left() < 0 {
				t.Fatalf("%s: more than there is", name)
			}
		}
		if any != c.sealed {
			t.Errorf("%s: lanes were used: %v", name, any)
		}
		if h := p.nearS.Tally.Held.Load(); h != c.near-p.nearHas.left() {
			t.Errorf("%s: %d bytes are counted, %d taken", name, h, c.near-p.nearHas.left())
		}
		p.near.Close()
		p.far.Close()
		if p.nearHas.left() != c.near || p.farHas.left() != c.far {
			t.Errorf("%s: not all was given back", name)
		}
	}
}

// A lane gets more room as its session grows, and when a message does not fit.
func TestLanesGrow(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	p.first(t, message(r, 50))
	if got := p.far.Readers.Rooms(); got != "40" {
		t.Fatalf("rooms %q", got)
	}
	huge := message(r, 60_000)
	o, i := p.near.Writers.Request(), p.far.Readers.Request()
	s := seal(o, huge)
	if s.sealed {
		t.Fatal("it fitted")
	}
	mustOpen(t, i, s)
	p.rooms(o)
	if got := p.far.Readers.Rooms(); got != "48" {
		t.Errorf("rooms %q", got)
	}
	if s = seal(o, huge); !s.sealed {
		t.Error("it does not fit what was made for it")
	}
	mustOpen(t, i, s)
	o.Done(i.Opened())
	if n := p.nearS.Tally.Misfits.Load(); n != 1 {
		t.Errorf("%d misfits", n)
	}
}

// The reader always takes less than the writer: a writer that keeps to its room never makes it take more.
func TestReaderTakesLess(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	p.first(t, message(r, 50))
	for n := range 300 {
		o, i := p.near.Writers.Request(), p.far.Readers.Request()
		raw := message(r, 1+n*n%700)
		s := seal(o, raw)
		mustOpen(t, i, s)
		p.rooms(o)
		o.Done(i.Opened())
		w, rd := &p.near.Writers.lanes[0], &p.far.Readers.lanes[0]
		if w.session.Bytes()+len(raw) < rd.session.Bytes() {
			t.Fatalf("message %d: the writer takes %d bytes, the reader %d", n, w.session.Bytes(), rd.session.Bytes())
		}
	}
	if n := p.nearS.Tally.Misfits.Load(); n != 0 {
		t.Errorf("%d misfits", n)
	}
}

// Lanes that were dropped are not used again, whatever responses to earlier calls say, until a message asks for one.
func TestForget(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	p.first(t, message(r, 50))
	before := p.near.Writers.Request()
	o, i := p.near.Writers.Request(), p.far.Readers.Request()
	mustOpen(t, i, seal(o, message(r, 50)))
	if p.near.Writers.Forget() || !p.near.Writers.Busy() {
		t.Fatal("forgotten while a call has a lane")
	}
	stale := seal(o, message(r, 50))
	o.Done(-1)
	if p.near.Writers.Busy() || !p.near.Writers.Forget() {
		t.Fatal("not forgotten")
	}
	said := p.far.Readers.Rooms()
	p.far.Readers.Forget()
	if p.nearHas.left() != plenty || p.farHas.left() != plenty {
		t.Error("not all was given back")
	}
	before.Told([]string{said})
	if s := seal(before, message(r, 50)); s.sealed {
		t.Error("a lane that is no more was used")
	}
	if err := open(t, i, stale); !errors.Is(err, ErrOrder) {
		t.Errorf("a message of before: %v", err)
	}
	p.first(t, message(r, 50))
	if err := open(t, i, stale); !errors.Is(err, ErrOrder) && err != nil {
		t.Errorf("a message of before: %v", err)
	}
	o, i = p.near.Writers.Request(), p.far.Readers.Request()
	s := seal(o, message(r, 50))
	if mustOpen(t, i, s); !s.sealed {
		t.Error("there is no lane")
	}
}

// The far end drops its lanes for replies. The near end keeps those that calls hold.
func TestForgetReplies(t *testing.T) {
	p, r := newPair(plenty, plenty), rng()
	call := func() (*In, *Out, sent) {
		in := p.near.Readers.Reply()
		out := p.far.Writers.Reply(p.far.Writers.Assigned(in.Header()))
		return in, out, seal(out, message(r, 50))
	}
	for range 3 {
		in, out, s := call()
		mustOpen(t, in, s)
		out.Sent(true)
		in.Done(true)
	}
	given := p.near.Readers.Reply() // to a call that the far end has not got yet
	if !p.far.Writers.Forget() {
		t.Fatal("not forgotten")
	}
	p.near.Readers.Forget()
	out := p.far.Writers.Reply(p.far.Writers.Assigned(given.Header()))
	s := seal(out, message(r, 50))
	if !s.sealed {
		t.Error("not sealed")
	}
	mustOpen(t, given, s)
	out.Sent(true)
	given.Done(true)
	p.near.Readers.Forget()
	if p.nearHas.left() != plenty {
		t.Error("not all was given back")
	}
	if in, _, s := call(); s.sealed {
		t.Errorf("%q: a lane that is no more", in.Header())
	}
}

// A message that the reader has to sort takes memory that the writer does not need. If memory is short the session
// survives that.
func TestReaderKeepsSession(t *testing.T) {
	p := newPair(plenty, 1<<20)
	field := func(b []byte, number byte, content []byte) []byte {
		return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(content))), content...)
	}
	long := []byte{2 << 3, 7}
	for range 400 {
		long = field(long, 1, bytes.Repeat([]byte("a label "), 200))
	}
	p.first(t, long[:2+10*1603])
	o, i := p.near.Writers.Request(), p.far.Readers.Request()
	mustOpen(t, i, seal(o, long))
	for n := range 20_000 {
		var b []byte
		for k := range 4 {
			b = field(b, 1, fmt.Appendf(nil, "a label like %d of %d", k, n))
		}
		mustOpen(t, i, seal(o, b))
		if p.nearS.Tally.Misfits.Load() > 0 {
			return
		}
	}
	t.Error("the lane was never full")
}
