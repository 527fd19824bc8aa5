package grpc

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// What an abandoned attempt is stuck in reading reaches its successor, also when that has
// been accepted meanwhile and nothing is recorded any more.
func TestReplayLosesNothing(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		src, client := io.Pipe()
		budget := gateway.NewBudget(1 << 20)
		replay := newReplayBuffer(src, 1000, budget)
		first := &replayReader{b: replay}
		go func() { _, _ = client.Write([]byte("begin ")) }()
		got := make([]byte, 6)
		if _, err := io.ReadFull(first, got); err != nil || string(got) != "begin " {
			t.Fatal(string(got), err)
		}
		stuck := make(chan error)
		go func() {
			_, err := first.Read(make([]byte, 100))
			stuck <- err
		}()
		testenv.Eventually(t, "the read", func() bool {
			replay.mu.Lock()
			defer replay.mu.Unlock()
			return replay.wanted
		})
		second, ok := replay.rewind()
		if !ok {
			t.Fatal("no rewind")
		}
		if stopped {
			replay.stop()
		}
		done := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(second)
			done <- all
		}()
		if err := <-stuck; err != errReplaced {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
		_, _ = client.Write([]byte("middle "))
		_, _ = client.Write(bytes.Repeat([]byte("x"), 2000))
		_ = client.Close()
		if all := <-done; len(all) != 13+2000 || !bytes.HasPrefix(all, []byte("begin middle xx")) {
			t.Errorf("%d bytes: %q", len(all), all[:min(len(all), 40)])
		}
		replay.close()
		if budget.InUse() != 0 {
			t.Error("the budget is not whole")
		}
	}
}

func TestReplayHasALimit(t *testing.T) {
	replay := newReplayBuffer(iotest.OneByteReader(bytes.NewReader(make([]byte, 5000))), 1000, gateway.NewBudget(1<<20))
	r := &replayReader{b: replay}
	_, _ = io.ReadFull(r, make([]byte, 1000))
	if _, ok := replay.rewind(); !ok || replay.room() != 0 {
		t.Error("not to be rewound at the limit")
	}
	again, _ := replay.rewind()
	if n, _ := io.Copy(io.Discard, again); n != 5000 {
		t.Error(n)
	}
	if _, ok := replay.rewind(); ok {
		t.Error("rewound beyond the limit")
	}
	replay.close()
}
