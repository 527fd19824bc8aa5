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
func TestTapeLosesNothing(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		src, client := io.Pipe()
		budget := gateway.NewBudget(1 << 20)
		tape := newTape(src, 1000, budget)
		first := &tapeReader{t: tape}
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
			tape.mu.Lock()
			defer tape.mu.Unlock()
			return tape.wanted
		})
		second, ok := tape.rewind()
		if !ok {
			t.Fatal("no rewind")
		}
		if stopped {
			tape.stop()
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
		tape.close()
		if budget.InUse() != 0 {
			t.Error("the budget is not whole")
		}
	}
}

func TestTapeHasALimit(t *testing.T) {
	tape := newTape(iotest.OneByteReader(bytes.NewReader(make([]byte, 5000))), 1000, gateway.NewBudget(1<<20))
	r := &tapeReader{t: tape}
	_, _ = io.ReadFull(r, make([]byte, 1000))
	if _, ok := tape.rewind(); !ok || tape.room() != 0 {
		t.Error("not to be rewound at the limit")
	}
	again, _ := tape.rewind()
	if n, _ := io.Copy(io.Discard, again); n != 5000 {
		t.Error(n)
	}
	if _, ok := tape.rewind(); ok {
		t.Error("rewound beyond the limit")
	}
	tape.close()
}
