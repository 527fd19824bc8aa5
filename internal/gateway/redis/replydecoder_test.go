package redis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// sealedNoise returns a value of n bytes that compresses little, and its envelope.
func sealedNoise(n int) (sealed, value string) {
	var b strings.Builder
	for i := uint64(1); b.Len() < n; i++ {
		fmt.Fprintf(&b, "{\"id\": \"%016x\", \"kind\": \"menu\"}\n", i*0x9E3779B97F4A7C15)
	}
	value = b.String()[:n]
	st := codec.Setting{Codec: codec.Zstd, Level: 1}
	sealed = string(envelope.NewSealer(envelope.SealerOptions{}).Seal(nil, []byte(value), st, nil))
	if !envelope.IsSealed([]byte(sealed)) {
		panic("nothing was gained")
	}
	return sealed, value
}

// declaring returns requests and the beginnings of their replies, which declare a long compressed value. The keys say
// how the gateway handles the reply.
func declaring(sealed string) map[string][2]string {
	bulk := fmt.Sprintf("$%d\r\n%s", len(sealed), sealed[:100])
	return map[string][2]string{
		"opened":      {"GET k", bulk},
		"computed on": {"GETBIT k 1", fmt.Sprintf("*2\r\n$%d\r\n%s\r\n%s", len(lua.Marker), lua.Marker, bulk)},
		"captured":    {"APPEND k x", fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$1\r\nk\r\n%s", len(lua.Marker), lua.Marker, bulk)},
	}
}

// A server that declares long compressed values and sends them byte by byte gets no memory for bytes that
// have not arrived. Others can use it meanwhile.
func TestRepliesHoldWhatCame(t *testing.T) {
	t.Parallel()
	sealed, value := sealedNoise(3 << 20)
	for name, c := range declaring(sealed) {
		t.Run(name, func(t *testing.T) {
			g := NewGateway(Config{MaxSeal: 32 << 20, Replies: memory.NewBudget(8 << 20), Stall: time.Hour})
			const dripping = 8
			for range dripping {
				client, server := slowlyAt(t, g)
				write(t, client, string(resp.AppendCommand(nil, strings.Fields(c[0])...)))
				server.next()
				server.say(c[1])
			}
			use := g.cfg.Replies
			testenv.Eventually(t, "the replies have begun", func() bool { return use.InUse() >= dripping*firstPiece || use.Waiting() > 0 })
			if n := use.InUse(); n > dripping*firstPiece {
				t.Errorf("%d bytes are held for %d replies that have not come", n, dripping)
			}
			client, server := slowlyAt(t, g)
			write(t, client, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
			server.next()
			go func() { _, _ = server.conn.Write(resp.AppendBulk(nil, sealed)) }()
			if got := readBulk(t, bufio.NewReader(client)); got != value {
				t.Errorf("another client: %d bytes", len(got))
			}
		})
	}
}

// A server that stops in the middle of a reply is disconnected when others wait for the memory that the reply
// holds, and not before.
func TestServerThatStopsInAReply(t *testing.T) {
	t.Parallel()
	sealed, _ := sealedNoise(3 << 20)
	for name, c := range declaring(sealed) {
		t.Run(name, func(t *testing.T) {
			g := NewGateway(Config{MaxSeal: 32 << 20, Replies: memory.NewBudget(8 << 20), Stall: time.Millisecond, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")})
			client, server := slowlyAt(t, g)
			write(t, client, string(resp.AppendCommand(nil, strings.Fields(c[0])...)))
			server.next()
			server.say(c[1])
			use := g.cfg.Replies
			testenv.Eventually(t, "the reply has begun", func() bool { return use.InUse() > 0 })
			others := [3]*memory.Account{}
			for i := range others { // the last one has to wait
				others[i] = g.replies.Account(nil, nil)
				go func() { _ = others[i].Acquire(t.Context(), 16<<20) }()
				defer others[i].Close()
			}
			testenv.Eventually(t, "others wait", func() bool { return use.Waiting() > 0 })
			if _, err := client.Read(make([]byte, 1)); err == nil {
				t.Error("the client has something to read")
			}
			if n := g.cfg.Stats.Snapshot().Errors["stalled"]; n == 0 {
				t.Error("no client was cut off")
			}
		})
	}
}

// An envelope that is too long as stored is reported with that length, not with the value's.
func TestEnvelopeTooLongAsStored(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	var spill spill
	var f frames
	spill.init(p.life, p.codec)
	f.init(p.life, &spill)
	if _, err := io.WriteString(p.server, env+strings.Repeat("x", envelope.MaxHeaderLen)); err != nil {
		t.Fatal(err)
	}
	o := replyDecoder{frames: &f, codec: p.codec}
	for _, test := range []struct {
		maxOpen, stored int
		want            string
	}{
		{len(lengthy), len(lengthy) + envelope.MaxHeaderLen, ""},
		{len(lengthy), len(lengthy) + envelope.MaxHeaderLen + 1, fmt.Sprintf("%d bytes as stored, the limit is %d (max_open)", len(lengthy)+envelope.MaxHeaderLen+1, len(lengthy))},
		{len(lengthy) - 1, len(env), fmt.Sprintf("%d bytes, the limit is %d (max_open)", len(lengthy), len(lengthy)-1)},
	} {
		p.codec.maxOpen = test.maxOpen
		_, err := o.parseHeader(int64(test.stored))
		if (err != nil) != (test.want != "") || err != nil && !(errors.Is(err, envelope.ErrTooLarge) && strings.HasSuffix(err.Error(), ": "+test.want)) {
			t.Errorf("%d bytes stored, limit %d: %v, want %q", test.stored, test.maxOpen, err, test.want)
		}
	}
}
