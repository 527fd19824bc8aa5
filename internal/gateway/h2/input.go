package h2

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	readLeast = 4 << 10 // is read ahead
	readMost  = 32 << 10
	quietMost = 16 // reads that a larger buffer would not have been needed for, before it is given back
)

// epoch is what times of reads count from.
var epoch = time.Now()

// input reads ahead. It belongs to the goroutine that reads, but for silence.
type input struct {
	conn   io.Reader
	settle func() // is called before anything is waited for
	// wantRest is called before the rest of a frame or header block is waited for, but for those of DATA.
	wantRest func()
	begun    bool         // part of a frame or header block has been read
	data     bool         // the frame is DATA
	at       atomic.Int64 // when something came last, in nanoseconds since epoch

	buf   []byte // at its full length
	r, w  int
	quiet int
}

func newInput(c net.Conn, ahead []byte) *input {
	in := &input{conn: gateway.NewBriefReader(c)}
	in.buf = gateway.GetBuffer(max(readLeast, len(ahead)))
	in.buf = in.buf[:cap(in.buf)]
	in.w = copy(in.buf, ahead)
	in.at.Store(int64(time.Since(epoch)))
	return in
}

// silence is how long nothing has come.
func (in *input) silence() time.Duration { return time.Since(epoch) - time.Duration(in.at.Load()) }

func (in *input) Read(p []byte) (int, error) {
	if in.r == in.w {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	in.begun = true
	return n, nil
}

func (in *input) fill() error {
	in.settle()
	if in.begun && !in.data {
		in.wantRest()
	}
	in.r, in.w = 0, 0
	n, err := in.conn.Read(in.buf)
	if n == 0 {
		return err
	}
	in.at.Store(int64(time.Since(epoch)))
	in.w = n
	in.fit(n)
	return nil
}

// fit makes the buffer larger when it was filled, and small again when that isn't needed any more.
func (in *input) fit(n int) {
	size := len(in.buf)
	switch {
	case n == size && size < readMost:
		in.quiet = 0
		size *= 4
	case n > readLeast:
		in.quiet = 0
		return
	case size > readLeast:
		if in.quiet++; in.quiet < quietMost {
			return
		}
		size = readLeast
	default:
		return
	}
	next := gateway.GetBuffer(min(size, readMost))
	next = next[:cap(next)]
	if in.w > len(next) {
		gateway.PutBuffer(next)
		return
	}
	copy(next, in.buf[:in.w])
	gateway.PutBuffer(in.buf)
	in.buf = next
}

func (in *input) free() {
	gateway.PutBuffer(in.buf)
	in.buf, in.r, in.w = nil, 0, 0
}
