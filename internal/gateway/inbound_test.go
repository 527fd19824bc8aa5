package gateway

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A message takes memory in proportion to the bytes that have come, not to the length that it declares.
func TestInboundHoldsReceivedBytes(t *testing.T) {
	const length = 40 << 20
	near, far := connected(t, "tcp")
	c := newConn(near, nil)
	b := memory.NewBudget(128 << 20)
	a := b.Share("g").Account(near.RemoteAddr(), &Stream{From: c, To: c, Client: c})
	defer a.Close()
	in := &Inbound{Conn: c, Peer: memory.FromClient, Ctx: t.Context(), Account: a}
	want := bytes.Repeat([]byte("0123456789abcdef"), length/16)
	got := make(chan error, 1)
	go func() {
		err := in.Expect(length, 2*length)
		if err == nil {
			err = in.ReadWhole(length)
		}
		if err == nil && !bytes.Equal(in.Take(length), want) {
			err = errors.New("it differs")
		}
		got <- err
	}()
	for sent := 0; sent < length; {
		n := min(max(1000, 3*sent), length-sent)
		if _, err := far.Write(want[sent : sent+n]); err != nil {
			t.Fatal(err)
		}
		sent += n
		testenv.Eventually(t, "the bytes were read", func() bool { r, _ := transferred(c); return int(r) == sent })
		if held := b.InUse(); sent < length && held > int64(max(initialRoom, growthFactor*sent)) {
			t.Errorf("%d bytes are held when %d have come", held, sent)
		}
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if held := b.InUse(); held != 2*length {
		t.Errorf("%d bytes are held for all of it", held)
	}
	in.Free()
	if held := b.InUse(); held != 0 {
		t.Errorf("%d bytes are held at the end", held)
	}
}
