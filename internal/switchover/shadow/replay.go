package shadow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
)

// Replay is like Start, with a recording in place of clients. Recorded pieces are put into the mirror at their recorded
// times, divided by speed; with speed 0 as fast as the targets take them. Nothing is dropped: a piece that does not fit
// is delayed. An A/A phase takes at most half of the recording's bytes; size has their number.
func (r *Run) Replay(ctx context.Context, in *recording.Reader, size recording.Summary, speed float64) error {
	r.budget.limit = max(r.budget.limit, MiB) // a piece fits in any case
	r.mirror.replayed = true
	r.replay = &feeder{
		in: in, size: size, speed: speed, tap: r.tap, proxy: r.proxy, over: r.over,
		conns: map[uint64]*clientConn{}, halfway: make(chan struct{}), begun: make(chan struct{}),
	}
	if err := r.Start(ctx); err != nil {
		return err
	}
	go r.play()
	return nil
}

// play plays the recording and then ends the run.
func (r *Run) play() {
	err := r.replay.run(r.inBaseline() && r.cfg.Candidate != nil)
	switch {
	case errors.Is(err, io.EOF):
		r.replay.whole.Store(true)
		r.Finish("the recording is over")
	case errors.Is(err, recording.ErrTruncated):
		r.replay.whole.Store(true)
		r.Finish(err.Error())
	case err != nil:
		r.void("%v", err)
		r.Finish(err.Error())
	}
}

// feeder puts a recording into the mirror's queue.
type feeder struct {
	in    *recording.Reader
	size  recording.Summary
	speed float64 // 0: no pace
	tap   *Tap
	proxy *proxy
	over  <-chan struct{}
	conns map[uint64]*clientConn

	halfway chan struct{} // closed when half of the recording was fed in the A/A phase
	begun   chan struct{} // closed when the candidate is in place
	paused  sync.Mutex    // locked while the candidate is put in place
	whole   atomic.Bool   // everything was played

	began  time.Time
	fed    atomic.Int64 // bytes
	behind atomic.Int64 // nanoseconds, the maximum so far
}

// half returns a channel that is closed when half of the recording was fed in the A/A phase; nil for a nil feeder, and
// once the candidate is in place, so that the caller receives from it only once.
func (f *feeder) half() <-chan struct{} {
	if f == nil {
		return nil
	}
	select {
	case <-f.begun:
		return nil
	default:
		return f.halfway
	}
}

// pause stops the feeder until goOn is called, when the candidate is in place.
func (f *feeder) pause() (goOn func()) {
	if f == nil {
		return func() {}
	}
	f.paused.Lock()
	return func() {
		close(f.begun)
		f.paused.Unlock()
	}
}

// run plays until the recording or the run ends. It returns the error that ended the recording, such as
// io.EOF; nil if the run ended. split leaves half of the recording for the candidate.
func (f *feeder) run(split bool) error {
	f.began = time.Now()
	for {
		rec, err := f.in.Next()
		if err != nil {
			f.endAll()
			return err
		}
		if split && 2*f.fed.Load() >= f.size.Bytes {
			split = false
			close(f.halfway)
			f.await(f.begun)
		}
		f.stand()
		if !f.pace(rec.At) || !f.put(rec) {
			return nil
		}
	}
}

// await waits until what is closed or the run is over. That time does not count as the targets' delay.
func (f *feeder) await(what <-chan struct{}) {
	since := time.Now()
	select {
	case <-what:
	case <-f.over:
	}
	f.began = f.began.Add(time.Since(since))
}

// stand waits while the feeder is paused.
func (f *feeder) stand() {
	since := time.Now()
	f.paused.Lock()
	f.began = f.began.Add(time.Since(since))
	f.paused.Unlock()
}

// pace waits until the piece recorded at that time is due. It returns false if the run is over.
func (f *feeder) pace(at time.Time) bool {
	if f.speed == 0 {
		select {
		case <-f.over:
			return false
		default:
			return true
		}
	}
	due := f.began.Add(time.Duration(float64(at.Sub(f.in.Start)) / f.speed))
	early := time.Until(due)
	if early <= 0 {
		f.behind.Store(max(f.behind.Load(), int64(-early)))
	}
	timer := time.NewTimer(early)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.over:
		return false
	}
}

// put hands a record to the mirror. It returns false if the run is over.
func (f *feeder) put(rec recording.Record) bool {
	from := memory.FromClient
	switch rec.Kind {
	case recording.FromServer:
		from = memory.FromUpstream
	case recording.End, recording.Partial:
		if c := f.conns[rec.Conn]; c != nil {
			f.tap.end(c)
			delete(f.conns, rec.Conn)
		}
		return true
	case recording.Last:
		return true
	}
	c := f.conns[rec.Conn]
	if c == nil {
		c = &clientConn{number: f.proxy.connections.Add(1)}
		f.conns[rec.Conn] = c
	}
	f.fed.Add(int64(len(rec.Bytes)))
	return f.tap.putWait(f.over, c, from, rec.At, rec.Bytes)
}

func (f *feeder) endAll() {
	for _, c := range f.conns {
		f.tap.end(c)
	}
}

// Replayed reports how much of a recording was played, and how.
type Replayed struct {
	Speed     float64       `json:"speed"` // 0: as fast as the targets could
	Bytes     int64         `json:"bytes"`
	Of        int64         `json:"of"`        // bytes in the recording
	Behind    time.Duration `json:"behind_ns"` // the longest delay of a piece
	Partial   int           `json:"partial"`   // connections that were not recorded completely
	Truncated bool          `json:"truncated"` // the recording was cut off
}

func (f *feeder) state() *Replayed {
	return &Replayed{
		Speed: f.speed, Bytes: f.fed.Load(), Of: f.size.Bytes, Behind: time.Duration(f.behind.Load()),
		Partial: f.size.Partial, Truncated: f.size.Truncated,
	}
}

// String returns the line for people.
func (p *Replayed) String() string {
	line := fmt.Sprintf("Replayed %d of %d bytes", p.Bytes, p.Of)
	if p.Speed == 0 {
		line += " as fast as the targets accepted them"
	} else {
		line += fmt.Sprintf(" at %g times the recorded speed, at most %v late", p.Speed, p.Behind.Round(time.Millisecond))
	}
	if p.Partial > 0 {
		line += fmt.Sprintf("; %d connections were recorded incompletely", p.Partial)
	}
	if p.Truncated {
		line += "; the recording is truncated"
	}
	return line + "."
}
