package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// unable is a Protocol whose targets become unreachable when fail is closed.
type unable struct{ fail chan struct{} }

var errGone = errors.New("the target is gone")

func (unable) Reader() shadow.Reader { return quiet{} }

func (u unable) Dial(ctx context.Context, _ *shadow.Target) (shadow.Conn, error) {
	select {
	case <-u.fail:
	case <-ctx.Done():
	}
	return nil, errGone
}

func (unable) ScratchWrite(int) *shadow.Operation { return &shadow.Operation{Kind: shadow.Write} }
func (unable) ScratchRead() *shadow.Operation     { return &shadow.Operation{Kind: shadow.Read} }
func (unable) ScratchClean() *shadow.Operation    { return &shadow.Operation{Kind: shadow.Write} }

type quiet struct{}

func (quiet) Request([]byte, time.Time) error                      { return nil }
func (quiet) Reply([]byte, time.Time) ([]*shadow.Operation, error) { return nil, nil }
func (quiet) Held() int64                                          { return 0 }

// said is a buffer that is safe for concurrent use.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

// behind returns the word after a text; "": there is none.
func (s *said) behind(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rest, _ := strings.Cut(s.b.String(), text)
	if words := strings.Fields(rest); len(words) > 0 {
		return words[0]
	}
	return ""
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.b.String(), text)
}

// echo starts production: a server that echoes its input.
func echo(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l
}

// passing is a run whose self-test fails after a client has connected.
type passing struct {
	run     *shadow.Run
	address string
	client  net.Conn
	signals chan os.Signal
	errs    said
	ended   chan error
}

func newPassing(t *testing.T, leaves bool) *passing {
	t.Helper()
	p := &passing{signals: make(chan os.Signal, 4), ended: make(chan error, 1)}
	protocol := unable{make(chan struct{})}
	cfg := shadow.Config{Protocol: protocol}
	cfg.Production.Network, cfg.Production.Address = "tcp", echo(t).Addr().String()
	r := shadow.New(cfg)
	t.Cleanup(func() { _ = r.Shutdown(context.WithoutCancel(t.Context())) })
	p.run = r
	m := &Mirror{SelfTest: true, Config: cfg}
	w := &Watcher{Run: r, Signals: p.signals, Out: io.Discard, Errs: &p.errs, Every: time.Hour}
	go func() { p.ended <- m.run(t.Context(), r, "127.0.0.1:0", w) }()
	testenv.Eventually(t, "clients may connect", func() bool { p.address = p.errs.behind("connect to "); return p.address != "" })
	p.connect(t)
	p.talk(t, "during the self-test")
	if leaves {
		p.leave(t)
	}
	close(protocol.fail)
	testenv.Eventually(t, "the failed self-test is reported", func() bool { return p.errs.has("passed through to production until") })
	return p
}

func (p *passing) connect(t *testing.T) {
	t.Helper()
	var err error
	if p.client, err = net.Dial("tcp", p.address); err != nil {
		t.Fatal(err)
	}
}

// leave disconnects the client, and waits until there is none.
func (p *passing) leave(t *testing.T) {
	t.Helper()
	_ = p.client.Close()
	testenv.Eventually(t, "the client has gone", func() bool { return p.run.Clients().Open == 0 })
}

// talk sends a request to production and checks the answer.
func (p *passing) talk(t *testing.T, text string) {
	t.Helper()
	if _, err := p.client.Write([]byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(p.client, got); err != nil || string(got) != text {
		t.Fatalf("%s: %q, %v", text, got, err)
	}
}

func (p *passing) check(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "self-test") || p.errs.has(mirrorOn) {
		t.Errorf("it ended with %v", err)
	}
}

// Clients of a run whose self-test fails are passed through until a signal. Turning the mirror off again
// changes nothing, and neither does a time without clients.
func TestClientsOfAFailedSelfTest(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		p := newPassing(t, leaves)
		if leaves {
			p.connect(t)
		}
		p.talk(t, "after it")
		p.signals <- syscall.SIGUSR1
		testenv.Eventually(t, "the signal was taken", func() bool { return len(p.signals) == 0 })
		p.talk(t, "after a signal that turns the mirror off")
		p.leave(t)
		stillThere(t, p.ended, p.signals)
		p.connect(t)
		p.talk(t, "after all clients had left")
		p.signals <- syscall.SIGTERM
		p.check(t, <-p.ended)
		_ = p.client.Close()
	}
}

// The next client is passed through, however long none was connected.
func TestNobodyConnectedAfterAFailedSelfTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := shadow.Config{Protocol: unable{}}
		cfg.Production.Network, cfg.Production.Address = "unix", filepath.Join(t.TempDir(), "away")
		r, l := shadow.New(cfg), testenv.NewPipeListener()
		served, ended := make(chan error, 1), make(chan error, 1)
		go func() { served <- r.Serve(l) }()
		client, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, client) // production is away
		signals := make(chan os.Signal)
		w := &Watcher{Run: r, Signals: signals, Errs: io.Discard}
		go func() { ended <- w.passThrough(errGone, served) }()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the next client is refused: %v", err)
		default:
		}
		signals <- syscall.SIGTERM
		if err := <-ended; err != errGone {
			t.Errorf("it ended with %v", err)
		}
		_ = client.Close()
		_ = r.Shutdown(t.Context())
	})
}

// A signal that ends the process does not wait for clients.
func TestSignalAfterAFailedSelfTest(t *testing.T) {
	p := newPassing(t, false)
	p.signals <- syscall.SIGTERM
	p.check(t, <-p.ended)
	_ = p.client.Close()
}
