package grpc

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Bytes that an abandoned attempt is waiting for reach the next attempt, even if that has been accepted
// meanwhile and nothing is recorded any more.
func TestReplayLosesNothing(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		src, client := io.Pipe()
		var memory replayMemory
		var replay replayBuffer
		replay.begin(src, 1000, &memory)
		first := replay.reader()
		go func() { _, _ = client.Write([]byte("begin ")) }()
		got := make([]byte, 6)
		if _, err := io.ReadFull(&first, got); err != nil || string(got) != "begin " {
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
		if !replay.rewind() {
			t.Fatal("no rewind")
		}
		second := replay.reader()
		if stopped {
			replay.stop()
		}
		done := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(&second)
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
		if n := memory.inUse.Load(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	}
}

func TestReplayHasALimit(t *testing.T) {
	var replay replayBuffer
	replay.begin(iotest.OneByteReader(bytes.NewReader(make([]byte, 5000))), 1000, &replayMemory{})
	r := replay.reader()
	_, _ = io.ReadFull(&r, make([]byte, 1000))
	if !replay.rewind() || len(replay.kept) != 1000 {
		t.Error("not to be rewound at the limit")
	}
	again := replay.reader()
	if n, _ := io.Copy(io.Discard, &again); n != 5000 {
		t.Error(n)
	}
	if replay.rewind() {
		t.Error("rewound beyond the limit")
	}
	replay.close()
}

// An empty body that one attempt has waited for is available to the next one.
func TestReplayOfAnEmptyBody(t *testing.T) {
	var replay replayBuffer
	replay.begin(&hereBody{}, 1000, &replayMemory{})
	first := replay.reader()
	if got, err := io.ReadAll(&first); len(got) > 0 || err != nil || !replay.rewind() {
		t.Fatalf("%q, %v", got, err)
	}
	if body, ok := replay.whole(); !ok || body == nil || len(body) > 0 {
		t.Errorf("%#v, %v", body, ok)
	}
	replay.close()
}

// hereBody is a body like package http2's that has arrived completely.
type hereBody struct {
	bytes.Reader
	taken func() // called before it is read whole; may be nil
}

func (b *hereBody) ReadWhole(int) ([]byte, bool) {
	if b.taken != nil {
		b.taken()
	}
	body, _ := io.ReadAll(&b.Reader)
	return body, true
}

func (b *hereBody) Close() error { return nil }

// A body that has arrived is kept for another attempt only if memory is available; otherwise it is left
// unread.
func TestWholeBodiesTakeMemory(t *testing.T) {
	const limit = 1000
	for _, want := range []string{"", "hello"} {
		var memory replayMemory
		memory.inUse.Store(replayBudget - limit)
		read := false
		src := &hereBody{taken: func() { read = true }}
		src.Reset([]byte(want))
		var replay replayBuffer
		replay.begin(src, limit, &memory)
		if body, ok := replay.whole(); ok || read || memory.inUse.Load() != replayBudget-limit {
			t.Errorf("without memory: %q, %v, taken out of its stream: %v, %d bytes taken", body, ok, read, memory.inUse.Load())
		}
		memory.inUse.Store(0)
		for attempt := range 3 {
			if body, ok := replay.whole(); !ok || body == nil || string(body) != want || memory.inUse.Load() != int64(cap(replay.kept)) {
				t.Errorf("attempt %d: %q, %v, %d bytes taken for %d", attempt, body, ok, memory.inUse.Load(), cap(replay.kept))
			}
			if !replay.rewind() {
				t.Fatal("no rewind")
			}
		}
		replay.close()
		if n := memory.inUse.Load(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	}
}

// Pieces of any size make the same body, and a message that fits is forwarded in one piece.
func TestWholes(t *testing.T) {
	const size = 100
	var body []byte
	for _, n := range []int{0, 1, 94, 95, 96, 300, 10, 0, 95, 1000} {
		body = append(body, frame(n%2 == 0, payload(n))...)
	}
	for piece := 1; piece <= size; piece++ {
		var w messageSplitter
		var out, buf []byte
		for at := 0; at < len(body); {
			n := min(piece, size-len(buf), len(body)-at)
			if n == 0 {
				t.Fatal("the buffer is full")
			}
			buf = append(buf, body[at:at+n]...)
			at += n
			ready := w.ready(buf, size)
			out = append(out, buf[:ready]...)
			buf = append([]byte(nil), buf[ready:]...)
		}
		if !bytes.Equal(out, body) || len(buf) > 0 {
			t.Fatalf("pieces of %d: %d bytes of %d, %d left", piece, len(out), len(body), len(buf))
		}
	}
}
