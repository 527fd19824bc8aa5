package tunnel

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestEcho(t *testing.T) {
	entry, exit := pair(t, server(t, echo), nil)
	c := dial(t, entry.addr)
	for i := range 200 {
		exchange(t, c, fmt.Appendf(nil, "message %d of a conversation that says much the same all the time", i))
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Fatalf("%q, %v after the end", rest, err)
	}
	for _, e := range []*end{entry, exit} {
		waitFor(t, func() bool { return e.stats.Snapshot().Connections.Open == 0 })
	}
}

var steps = flag.Int("tunnel.steps", 0, "reads and writes of the property test; 0: few, but with make full")

// speech is an endless stream of bytes that both sides can generate: repeated text, noise, and earlier bytes.
type speech struct {
	rng *rand.Rand
	old []byte
	b   []byte
}

func newSpeech(seed uint64) *speech { return &speech{rng: rand.New(rand.NewPCG(seed, 1))} }

func (s *speech) next(n int) []byte {
	for len(s.b) < n {
		part := make([]byte, 1+s.rng.IntN(9000))
		switch kind := s.rng.IntN(4); {
		case kind == 0:
			for i := range part {
				part[i] = byte(s.rng.Uint32())
			}
		case kind == 1 && len(s.old) > len(part):
			copy(part, s.old[s.rng.IntN(len(s.old)-len(part)):])
		default:
			word := fmt.Appendf(nil, `{"id":%d,"name":"user-%d"},`, s.rng.IntN(1e6), s.rng.IntN(50))
			for i := range part {
				part[i] = word[i%len(word)]
			}
		}
		s.b = append(s.b, part...)
		s.old = append(s.old, part...)
		s.old = s.old[max(0, len(s.old)-300_000):]
	}
	out := s.b[:n:n]
	s.b = s.b[n:]
	return out
}

// plan describes what one connection does. Both sides derive it from its seed.
type plan struct {
	seed    uint64
	lengths [2]int // bytes that client and server send
	resets  [2]int // bytes after which each resets the connection; -1: never
}

func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := plan{seed: seed}
	for i := range p.lengths {
		p.lengths[i] = rng.IntN([...]int{1, 100, 20_000, 400_000, 2_000_000}[rng.IntN(5)])
		p.resets[i] = -1
	}
	if rng.IntN(4) == 0 {
		who := rng.IntN(2)
		p.resets[who] = rng.IntN(p.lengths[who] + 1)
	}
	return p
}

func (p plan) resetting() bool { return p.resets[0] >= 0 || p.resets[1] >= 0 }

// halfConn is a connection over TCP or TLS.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// side plays one side of a plan.
type side struct {
	plan  plan
	who   int
	c     halfConn
	steps *atomic.Int64
}

func (s *side) play() error {
	var wg sync.WaitGroup
	var said, heard error
	wg.Go(func() { said = s.say() })
	wg.Go(func() { heard = s.hear() })
	wg.Wait()
	_ = s.c.Close()
	if s.plan.resetting() {
		if said != nil { // the kernel reports a reset once: if the writer gets it, the reader gets EOF
			return nil
		}
		return heard
	}
	return errors.Join(said, heard)
}

func (s *side) say() error {
	rng := rand.New(rand.NewPCG(s.plan.seed, uint64(3+s.who)))
	words := newSpeech(s.plan.seed + uint64(s.who))
	total, reset := s.plan.lengths[s.who], s.plan.resets[s.who]
	if reset >= 0 {
		total = reset
	}
	for total > 0 {
		n := min(1+rng.IntN([...]int{10, 1000, 150_000}[rng.IntN(3)]), total)
		if _, err := s.c.Write(words.next(n)); err != nil {
			return fmt.Errorf("%d says: %w", s.who, err)
		}
		total -= n
		s.steps.Add(1)
		if rng.IntN(50) == 0 {
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		}
	}
	if reset >= 0 {
		gateway.SetResetOnClose(s.c, true)
		return gateway.Abort(s.c)
	}
	return s.c.CloseWrite()
}

// hear checks every byte. Without a reset all of them have to arrive, and then EOF. With a reset there may be
// fewer, but no EOF.
func (s *side) hear() error {
	rng := rand.New(rand.NewPCG(s.plan.seed, uint64(5+s.who)))
	words := newSpeech(s.plan.seed + uint64(1-s.who))
	want, got := s.plan.lengths[1-s.who], 0
	buf := make([]byte, 100_000)
	for {
		n, err := s.c.Read(buf[:1+rng.IntN([...]int{20, 2000, len(buf)}[rng.IntN(3)])])
		if !bytes.Equal(buf[:n], words.next(n)) {
			return fmt.Errorf("%d heard other bytes than were said, at %d", s.who, got)
		}
		got += n
		s.steps.Add(1)
		switch {
		case errors.Is(err, io.EOF) && (got != want || s.plan.resets[1-s.who] >= 0):
			return fmt.Errorf("%d heard an end after %d of %d bytes, reset at %d", s.who, got, want, s.plan.resets[1-s.who])
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && s.plan.resetting():
			return nil
		case err != nil:
			return fmt.Errorf("%d heard %d of %d bytes, then: %w", s.who, got, want, err)
		}
		if rng.IntN(40) == 0 { // a slow reader
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		}
	}
}

// TestEverythingArrives plays random conversations under all kinds of settings: splits, merges, half-closes, resets,
// slow readers, histories that grow and that are dropped.
func TestEverythingArrives(t *testing.T) {
	ca := testenv.NewAuthority(t)
	secret := ca.Issue(t, "all").TLS(t)
	settings := map[string]func(*Config){
		"none":  nil, // without gateways, to check the test itself
		"zstd":  func(c *Config) { c.Links = 2 },
		"auto":  func(c *Config) { c.Auto = true },
		"lz4":   func(c *Config) { c.Setting = codec.Setting{Codec: codec.LZ4} },
		"s2":    func(c *Config) { c.Setting = codec.Setting{Codec: codec.S2} },
		"raw":   func(c *Config) { c.Setting = codec.Setting{} },
		"short": func(c *Config) { c.History, c.IdleTimeout = 3<<20, time.Millisecond },
		"tls": func(c *Config) { // on all connections
			c.TLS, c.Upstream.TLS, c.Links = secret, &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}, 2
		},
	}
	n := cmp.Or(*steps, codectest.Amount(2000, 4000, 10_000)) / len(settings)
	for name, change := range settings {
		t.Run(name, func(t *testing.T) { playMany(t, change, n) })
	}
}

func playMany(t *testing.T, change func(*Config), steps int) {
	var done atomic.Int64
	failed := make(chan error, 1000)
	var secret Config
	if change != nil {
		change(&secret)
	}
	to := server(t, func(plain *net.TCPConn) {
		var c halfConn = plain
		if secret.TLS != nil {
			c = tls.Server(plain, secret.TLS)
		}
		var seed [8]byte
		if _, err := io.ReadFull(c, seed[:]); err != nil {
			_ = c.Close()
			return
		}
		s := side{newPlan(binary.BigEndian.Uint64(seed[:])), 1, c, &done}
		if err := s.play(); err != nil {
			failed <- fmt.Errorf("plan %+v: %w", s.plan, err)
		}
	})
	if change != nil {
		entry, _ := pair(t, to, change)
		to = entry.addr
	}
	var seeds atomic.Uint64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for done.Load() < int64(steps) {
				p := newPlan(seeds.Add(10))
				var c halfConn = dial(t, to)
				if secret.TLS != nil {
					c = tls.Client(c, secret.Upstream.TLS)
				}
				_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
				if _, err := c.Write(binary.BigEndian.AppendUint64(nil, p.seed)); err != nil {
					failed <- fmt.Errorf("plan %+v: %w", p, err)
				}
				s := side{p, 0, c, &done}
				if err := s.play(); err != nil {
					failed <- fmt.Errorf("plan %+v: %w", p, err)
				}
			}
		})
	}
	all.Wait()
	for len(failed) > 0 {
		t.Error(<-failed)
	}
}
