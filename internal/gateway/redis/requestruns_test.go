package redis

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// carryBuffered carries one complete element that is not an envelope, and an envelope if the whole reply is a value.
func TestCarryBuffered(t *testing.T) {
	const lookalike = envelope.Magic + "lookalike"
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	sealed := string(resp.AppendBulk(nil, sealer.Seal(nil, []byte(lookalike), codec.Setting{}, nil)))
	damaged := string(resp.AppendBulk(nil, []byte(envelope.Magic+"lookalike")))
	g := NewGateway(Config{})
	// quick returns how many bytes of b were carried, and what the client gets.
	quick := func(b string, sh shape) (carried int, got string) {
		s := newSession(g, &feed{}, &feed{bytes: []byte(b), reads: 1}, time.Now())
		if err := s.replyPump.frames.in.Fill(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.replyPump.carryBuffered(&entry{shape: sh}); err != nil {
			t.Fatal(err)
		}
		return len(b) - len(s.replyPump.frames.in.Buffered()), string(s.replyPump.frames.to.buf) + string(s.replyPump.frames.to.lent)
	}
	for _, test := range []struct {
		reply string
		shape shape
		want  string // "": left alone
	}{
		{"+OK\r\n", shapeNone, "+OK\r\n"},
		{"+OKAY\r\n", shapeNone, "+OKAY\r\n"},
		{"+\r\n", shapeNone, "+\r\n"},
		{":0\r\n", shapeBulk, ":0\r\n"},
		{":-1234567\r\n", shapeNone, ":-1234567\r\n"},
		{"$0\r\n\r\n", shapeBulk, "$0\r\n\r\n"},
		{"$5\r\nhello\r\n", shapeBulk, "$5\r\nhello\r\n"},
		{"$12\r\nhello\r\nworld\r\n", shapeBulk, "$12\r\nhello\r\nworld\r\n"},
		{sealed, shapeNone, sealed},
		{sealed, shapeBulk, string(resp.AppendBulk(nil, lookalike))},
		{sealed, shapeAll, ""},
		{damaged, shapeBulk, ""},
		{"-ERR no\r\n", shapeNone, ""},
		{"$-1\r\n", shapeBulk, ""},
		{"*1\r\n+OK\r\n", shapeNone, ""},
		{"_\r\n", shapeNone, ""},
		{">1\r\n+OK\r\n", shapeNone, ""},
	} {
		for _, behind := range []string{"", "+OK\r\n", "-E"} {
			want := 0
			if test.want != "" {
				want = len(test.reply)
			}
			if n, got := quick(test.reply+behind, test.shape); n != want || got != test.want {
				t.Errorf("%q, then %q: %d bytes, want %d, and the client gets %q", test.reply, behind, n, want, got)
			}
		}
		for i := 1; i < len(test.reply); i++ {
			if n, got := quick(test.reply[:i], test.shape); n != 0 || got != "" {
				t.Errorf("%q of %q: %d bytes, and the client gets %q", test.reply[:i], test.reply, n, got)
			}
		}
	}
}

// Pipelines with runs of equal requests between others are answered as by the server, wherever the stream is cut.
func TestPipelinesOfRuns(t *testing.T) {
	t.Parallel()
	pipelines := func(seed uint64) (all []byte, n int) {
		r := rand.New(rand.NewPCG(seed, 1))
		for range 30 {
			command := randomCommand(r)
			for range r.IntN(40) {
				all = resp.AppendCommand(all, command()...)
				n++
			}
		}
		return all, n
	}
	for seed := range uint64(6) {
		sock := startServer(t)
		front, _ := startGateway(t, sock)
		twin := startServer(t)
		all, n := pipelines(seed)
		all = resp.AppendCommand(all, "ECHO", "the end")
		t.Logf("seed %d: %d requests in %d bytes", seed, n, len(all))
		want := converse(t, dialRaw(t, twin), all, 1<<20)
		for _, piece := range []int{1 << 20, 5000} {
			clientOf(t, sock).FlushAll(ctx)
			if got := converse(t, dialRaw(t, front), all, piece); !bytes.Equal(got, want) {
				t.Fatalf("seed %d, in pieces of %d: %s", seed, piece, firstDifference(got, want))
			}
		}
	}
}

// randomCommand returns a generator of requests whose replies have one form.
func randomCommand(r *rand.Rand) func() []string {
	key := func() string { return "k" + strconv.Itoa(r.IntN(4)) }
	value := strings.Repeat(`{"name": "a value that is sealed"} `, 1+r.IntN(30))
	switch r.IntN(9) {
	case 0:
		return func() []string { return []string{"SET", key(), value} }
	case 1:
		return func() []string { return []string{"SET", key(), "short"} }
	case 2, 3:
		return func() []string { return []string{"GET", key()} }
	case 4:
		return func() []string { return []string{"INCR", "n"} }
	case 5:
		return func() []string { return []string{"INCR", key()} } // often an error
	case 6:
		return func() []string { return []string{"SET", key(), strings.Repeat("x", copyBytes+r.IntN(3)-1)} }
	case 7:
		return func() []string { return []string{"MGET", key(), "none", key()} }
	}
	return func() []string { return []string{"STRLEN", key()} }
}

// converse sends all in pieces and returns the answers up to that to ECHO.
func converse(t *testing.T, c net.Conn, all []byte, piece int) (got []byte) {
	t.Helper()
	go func() {
		for len(all) > 0 {
			n := min(piece, len(all))
			if _, err := c.Write(all[:n]); err != nil {
				return
			}
			all = all[n:]
			if len(all) > 0 {
				time.Sleep(200 * time.Microsecond)
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for !bytes.HasSuffix(got, []byte("$7\r\nthe end\r\n")) {
		n, err := c.Read(buf)
		if got = append(got, buf[:n]...); err != nil && err != io.EOF {
			t.Fatalf("%d bytes, then %v", len(got), err)
		}
	}
	return got
}

func firstDifference(got, want []byte) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	around := func(b []byte) string { return strconv.Quote(string(b[max(0, i-40):min(len(b), i+40)])) }
	return "at " + strconv.Itoa(i) + " " + around(got) + ", want " + around(want)
}

// Counted entries reach the queue with the next entry, and the session keeps no reference to an entry's data.
func TestCountedEntries(t *testing.T) {
	t.Parallel()
	client, upstream := socketPair(t)
	defer client.Close()
	s := newSession(NewGateway(Config{}), client, upstream, time.Now())
	defer s.Close()
	plain, values, other := entry{}, entry{shape: shapeBulk}, entry{data: &entryData{}}
	for i, test := range []struct {
		push   entry
		queued int // replies that the queue expects afterwards
	}{
		{plain, 0}, {plain, 0}, {values, 3}, {values, 3}, {other, 5}, {plain, 6}, {plain, 6}, {other, 8}, {other, 9},
	} {
		if err := s.upstream.queue.push(test.push, s.upstream.onWait); err != nil {
			t.Fatal(err)
		}
		queued := 0
		for k := range s.upstream.queue.n {
			queued += s.upstream.queue.at(k).n
		}
		if queued != test.queued {
			t.Errorf("push %d: %d replies in the queue, want %d", i, queued, test.queued)
		}
		if s.upstream.queue.next.data != nil {
			t.Errorf("push %d: the session keeps what the entry carried", i)
		}
	}
	if s.upstream.isIdle() {
		t.Error("nothing outstanding, it says")
	}
	s.upstream.queue.close()
	if err := s.upstream.queue.publish(); err != nil {
		t.Error("nothing was counted, but", err)
	}
	if err := s.upstream.queue.push(values, s.upstream.onWait); err == nil {
		t.Error("a closed queue took an entry")
	}
}

// A session is not idle while the server has sent only part of a reply: a drain waits for the rest.
func TestUnsettledWithinAReply(t *testing.T) {
	for command, reply := range map[string]string{"GET": "$15\r\na plain content\r\n", "MGET": "*1\r\n$15\r\na plain content\r\n"} {
		t.Run(command, func(t *testing.T) {
			client, near := socketPair(t)
			far, server := socketPair(t)
			g := NewGateway(Config{Stats: gateway.NewStats("test", "redis"), Log: slog.New(slog.DiscardHandler)})
			s := newSession(g, near, far, time.Now())
			ended := make(chan struct{})
			go func() { defer close(ended); s.Run() }()
			for _, c := range []net.Conn{client, server} {
				_ = c.SetDeadline(time.Now().Add(time.Minute))
			}
			request := resp.AppendCommand(nil, command, "hello")
			write(t, client, string(request))
			if _, err := io.ReadFull(server, make([]byte, len(request))); err != nil {
				t.Fatal(err)
			}
			settled := func() bool { return s.upstream.queue.empty() && !s.replyPump.midReply() }
			part := len(reply) - len("ent\r\n")
			write(t, server, reply[:part])
			if _, err := io.ReadFull(client, make([]byte, part)); err != nil {
				t.Fatal(err)
			}
			if settled() {
				t.Error("settled within the reply")
			}
			write(t, server, reply[part:])
			if _, err := io.ReadFull(client, make([]byte, len(reply)-part)); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "the session is settled", settled)
			_ = client.Close()
			_ = server.Close()
			<-ended
		})
	}
	p := newParts(t)
	if p.upstream.pump = (midway{}); p.upstream.isIdle() {
		t.Error("settled though its reply pump is within a reply")
	}
}

// midway is a reply pump in the middle of a reply.
type midway struct{ idlePump }

func (midway) midReply() bool { return true }
