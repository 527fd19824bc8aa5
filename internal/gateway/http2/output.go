package http2

import (
	"runtime"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	// maxQueuedBytes is the number of queued bytes at which data has to wait.
	maxQueuedBytes = 64 << 10
	// maxControlBytes limits the queued bytes of replies to the peer. A peer that reads nothing and keeps asking
	// ends its connection.
	maxControlBytes = 128 << 10
	// smallBatch is the size below which a batch waits for runnable goroutines to add to it.
	smallBatch = 4 << 10
	// maxSenderBatches limits the batches that a sender writes itself, including frames of others.
	maxSenderBatches = 2
)

// output holds the frames that are queued for writing. The connection's mu guards it.
type output struct {
	c             *conn
	nowWriter     *gateway.NonblockingWriter // nil: writes block, and only the writer goroutine writes
	out           []byte                     // pooled; queued frames, in order
	controlBytes  int                        // bytes of out that are replies to the peer
	rest          []byte                     // pooled; a batch that the system took only in part: for the writer
	at            int                        // start of the unwritten part of rest
	sending       bool                       // a goroutine is writing, and looks for more before it ends
	writerRunning bool                       // the writer goroutine runs
	closed        bool                       // the writer is to close the connection when all is written
	linger        time.Duration              // before closing, read on until nothing has arrived for this long
	work          sync.Cond                  // wakes a waiting writer
}

func (o *output) init(c *conn) {
	o.c = c
	o.nowWriter = gateway.NewNonblockingWriter(c.net)
	o.work.L = &c.mu
}

// Write queues a frame. The Framer calls it.
func (o *output) Write(p []byte) (int, error) {
	o.out = append(grow(o.out, len(p)), p...)
	return len(p), nil
}

// queuedBytes returns the number of queued bytes.
func (o *output) queuedBytes() int { return len(o.out) + len(o.rest) - o.at }

// control queues a reply that the peer has caused. c.mu must be held.
func (c *conn) control(write func() error) {
	if c.err != nil {
		return
	}
	o := &c.output
	if o.controlBytes > maxControlBytes {
		c.fail(enhanceYourCalm("too many replies queued for a peer that does not read"))
		return
	}
	before := len(o.out)
	_ = write()
	o.controlBytes += len(o.out) - before
}

// flush writes queued frames without blocking. c.mu must be held; it is released while writing, and so that
// other goroutines can add frames. Any sender may run flush, so a panic ends the connection and does not
// reach the sender.
func (c *conn) flush() {
	o := &c.output
	if o.sending || len(o.out) == 0 {
		return
	}
	o.sending = true
	defer gateway.CatchPanic(c.Log, c.Stats, c.abortLocked)
	for range maxSenderBatches {
		if o.nowWriter == nil {
			break
		}
		if o.gather(); o.closed {
			break
		}
		batch, n := o.take(), 0
		err := c.unlocked(func() (err error) {
			n, err = o.nowWriter.Write(batch)
			return err
		})
		if err != nil {
			memory.PutBuffer(batch)
			c.fail(err)
			break
		}
		if n < len(batch) { // the system takes no more now
			o.rest, o.at = batch, n
			break
		}
		memory.PutBuffer(batch)
		c.wakeWaiters()
		if len(o.out) == 0 && !o.closed { // others may have written it meanwhile
			o.sending = false
			return
		}
	}
	o.startWriter()
}

// gather lets runnable goroutines add to a small batch. c.mu is released meanwhile.
func (o *output) gather() {
	if len(o.out) < smallBatch {
		o.c.mu.Unlock()
		runtime.Gosched()
		o.c.mu.Lock()
	}
}

// take returns the queued frames and empties the queue.
func (o *output) take() []byte {
	batch := o.out
	o.out, o.controlBytes = nil, 0
	return batch
}

// wakeWaiters wakes the streams and requests that wait for room, once enough was written.
func (c *conn) wakeWaiters() {
	if c.output.queuedBytes() < maxQueuedBytes/2 {
		if c.wakeRoomWaiters(); c.clientSide != nil {
			c.clientSide.admit()
		}
	}
}

func (o *output) startWriter() {
	if o.writerRunning {
		o.work.Signal()
		return
	}
	o.writerRunning = true
	go o.run()
}

// run is the writer goroutine, which may block. On a connection whose writes always block it does all of
// them, and lives as long as the connection.
func (o *output) run() {
	defer gateway.CatchPanic(o.c.Log, o.c.Stats, o.replaceWriter)
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	for {
		switch {
		case o.queuedBytes() > 0:
			o.writeSome()
		case o.closed:
			o.closeConn()
			return
		case o.nowWriter != nil:
			o.sending, o.writerRunning = false, false
			return
		default:
			o.sending = false
			o.work.Wait()
		}
	}
}

// replaceWriter ends the connection after a panic of the writer. abort starts another writer for that,
// unless the connection is already closed.
func (o *output) replaceWriter() {
	select {
	case <-o.c.done:
		return
	default:
	}
	o.c.mu.Lock()
	o.writerRunning = false
	o.c.mu.Unlock()
	o.c.abort()
}

func (o *output) writeSome() {
	batch, at := o.rest, o.at
	if len(batch) == 0 {
		o.gather()
		batch, at = o.take(), 0
	}
	o.rest, o.at = nil, 0
	err := o.c.unlocked(func() error {
		_, err := o.c.net.Write(batch[at:])
		return err
	})
	memory.PutBuffer(batch)
	if err != nil {
		o.drop()
		o.c.fail(err)
		return
	}
	o.c.wakeWaiters()
}

func (o *output) drop() {
	memory.PutBuffer(o.take())
	memory.PutBuffer(o.rest)
	o.rest, o.at = nil, 0
}

// close lets the writer close the connection after queued output was written.
func (o *output) close() {
	o.closed = true
	if !o.sending || o.writerRunning {
		o.sending = true
		o.startWriter()
	} // else the goroutine that is sending starts it
}

// closeConn closes the connection, after reading on for a while if linger is set.
func (o *output) closeConn() {
	linger := o.linger
	_ = o.c.unlocked(func() error {
		defer close(o.c.done)
		if linger > 0 {
			discard(o.c.net, linger)
		}
		return o.c.net.Close()
	})
}
