package shadowtest

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
)

// Tape is a recording of production, whose clients connect to Addr.
type Tape struct {
	Recorder *shadow.Recorder
	Addr     string
	file     string
	key      *age.X25519Identity
}

// Record begins an encrypted recording, which ends with the test.
func Record(t *testing.T, protocol string, cfg shadow.RecorderConfig) *Tape {
	t.Helper()
	p := &Tape{file: filepath.Join(t.TempDir(), "recording")}
	var err error
	if p.key, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	f, err := recording.Create(p.file, recording.Header{Protocol: protocol, Start: time.Now()}, 1<<30, p.key.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Bound = time.Minute // this machine may be slow
	p.Recorder = shadow.NewRecorder(cfg, f)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Addr = l.Addr().String()
	var served sync.WaitGroup
	served.Go(func() { _ = p.Recorder.Serve(l) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Recorder.Shutdown(ctx)
		served.Wait()
	})
	return p
}

// Finish ends the recording, and returns its summary.
func (p *Tape) Finish(t *testing.T) recording.Summary {
	t.Helper()
	p.Recorder.Finish("the test is over")
	<-p.Recorder.Over()
	if err := p.Recorder.Err(); err != nil {
		t.Fatal(err)
	}
	s, err := recording.Summarize(p.open(t).Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v; %+v", p.Recorder.State(), s)
	return s
}

func (p *Tape) open(t *testing.T) *recording.Opened {
	t.Helper()
	in, err := recording.Open(p.file, p.key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// Bytes returns all recorded bytes.
func (p *Tape) Bytes(t *testing.T) []byte {
	t.Helper()
	var all bytes.Buffer
	in := p.open(t)
	for {
		r, err := in.Next()
		if err != nil {
			return all.Bytes()
		}
		all.Write(r.Bytes)
	}
}

// Replay plays the tape to the servers of a configuration, and fails if they don't agree.
func (p *Tape) Replay(t *testing.T, speed float64, cfg shadow.Config) *shadow.Report {
	t.Helper()
	size := p.Finish(t)
	run := shadow.New(cfg)
	if err := run.Replay(t.Context(), p.open(t).Reader, size, speed); err != nil {
		t.Fatal(err)
	}
	<-run.Over()
	r := run.Report()
	t.Logf("%s; %d operations: %+v, why %v, left %v, ended: %s %q", r.Replay, r.Operations, r.Compared, r.Why, r.Left, r.Ended, r.Reasons)
	if c := r.Compared; c.Different > 0 || c.Unordered > 0 || c.Lost != [2]uint64{} || r.Dropped > 0 || r.Replay.Bytes != r.Replay.Of {
		t.Errorf("compared %+v, %d dropped, %v, %v", c, r.Dropped, r.Differences, r.Reasons)
	}
	return r
}
