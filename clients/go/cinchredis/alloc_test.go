package cinchredis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
)

// A fakeConn answers immediately and without allocating: an error to the handshake, OK to SET, a value to
// GET.
type fakeConn struct {
	net.Conn
	value   []byte
	pending []byte
}

var answered, unknown = []byte("+OK\r\n"), []byte("-ERR unknown command\r\n")

func (f *fakeConn) Write(p []byte) (int, error) {
	switch {
	case bytes.Contains(p, []byte("\r\nget\r\n")):
		f.pending = f.value
	case bytes.Contains(p, []byte("\r\nset\r\n")):
		f.pending = answered
	case bytes.HasPrefix(p, []byte("*")):
		f.pending = unknown
	}
	return len(p), nil
}

func (f *fakeConn) Read(p []byte) (int, error) {
	n := copy(p, f.pending)
	f.pending = f.pending[n:]
	return n, nil
}

func (f *fakeConn) Close() error                     { return nil }
func (f *fakeConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (f *fakeConn) SetDeadline(time.Time) error      { return nil }
func (f *fakeConn) SetReadDeadline(time.Time) error  { return nil }
func (f *fakeConn) SetWriteDeadline(time.Time) error { return nil }

// offline returns a client whose connections are fakeConns and whose GET returns value.
func offline(t *testing.T, value []byte) *redis.Client {
	bulk := fmt.Appendf(nil, "$%d\r\n%s\r\n", len(value), value)
	return newClient(t, &redis.Options{
		Protocol: 2, DisableIdentity: true, PoolSize: 1, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) { return &fakeConn{value: bulk}, nil },
	})
}

// The hook allocates two objects for each operation in addition to go-redis's, with a dictionary and without.
func TestAllocations(t *testing.T) {
	value := bytes.Repeat([]byte(menu), 75)
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	sealed := sealer.Seal(nil, value, zstd3, nil)
	plain, hooked := offline(t, sealed), offline(t, sealed)
	d, err := codec.NewDict(bytes.Repeat([]byte(content), 3))
	must(t, err)
	for _, number := range []uint32{0, d.Number()} {
		h, err := newHook(hooked, Options{})
		must(t, err)
		must(t, h.keeper.dicts.Add(d))
		p, err := policy.New(policy.Options{Rules: []policy.Rule{{Setting: codec.Setting{Codec: codec.Zstd, Level: 3, Dict: number}}}})
		must(t, err)
		h.keeper.known.Store(&agreement{p, time.Now()})
		h.keeper.next.Store(time.Now().Add(time.Hour).UnixNano())
		if number == 0 {
			hooked.AddHook(h)
		} else {
			hooked = offline(t, sealed)
			hooked.AddHook(h)
		}
		for name, run := range map[string]func(c *redis.Client){
			"SET": func(c *redis.Client) { must(t, c.Set(context.Background(), "menu:1", value, 0).Err()) },
			"GET": func(c *redis.Client) { must(t, c.Get(context.Background(), "menu:1").Err()) },
		} {
			own := testing.AllocsPerRun(200, func() { run(plain) })
			with := testing.AllocsPerRun(200, func() { run(hooked) })
			t.Logf("%s, dictionary %08x: %v and %v", name, number, own, with)
			if !raceDetector && with-own > 2 {
				t.Errorf("%s, dictionary %08x: %v objects, %v without the hook", name, number, with, own)
			}
		}
	}
}
