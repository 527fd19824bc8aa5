package h2

import (
	"runtime"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	// outMost is what waits to be written before data has to wait for it.
	outMost = 64 << 10
	// controlMost is what may wait of what the peer makes us say. A peer that reads nothing and goes on asking ends its connection.
	controlMost = 128 << 10
	// smallBatch is worth to look whether there is more.
	smallBatch = 4 << 10
	// rounds is how often a goroutine that had something to say writes for others too.
	rounds = 2
)

// output is what waits to be written. All is guarded by the connection's mu.
type output struct {
	c       *conn
	now     *gateway.NowWriter // nil: writes wait, and only the writer does them
	out     []byte             // pooled; frames in order
	said    int                // bytes of out that the peer has made us say
	rest    []byte             // pooled; what comes before out, and the system did not take: the writer's
	at      int                // in rest
	sending bool               // somebody is at it, and looks again before it ends
	writing bool               // the writer lives
	closed  bool               // it closes the connection when all has left
	linger  time.Duration      // but reads on first, while no more than that passes without anything
	work    sync.Cond          // for a writer that waits
}

func (o *output) init(c *conn) {
	o.c = c
	o.now = gateway.NewNowWriter(c.net)
	o.work.L = &c.mu
}

// Write queues a frame for the Framer.
func (o *output) Write(p []byte) (int, error) {
	o.out = append(grow(o.out, len(p)), p...)
	return len(p), nil
}

// waiting is how much is queued.
func (o *output) waiting() int { return len(o.out) + len(o.rest) - o.at }

// control queues what the peer has made us say. c.mu is held.
func (c *conn) control(write func() error) {
	if c.err != nil {
		return
	}
	o := &c.output
	if o.said > controlMost {
		c.fail(calm("too much to say to a peer that reads nothing"))
		return
	}
	before := len(o.out)
	_ = write()
	o.said += len(o.out) - before
}

// flush lets go what is queued. It does not wait, but for its turn: c.mu is held, and given up meanwhile. It runs in goroutines of all that
// send: a panic is the connection's, and not theirs.
func (c *conn) flush() {
	o := &c.output
	if o.sending || len(o.out) == 0 {
		return
	}
	o.sending = true
	defer gateway.CatchPanic(c.Log, c.Stats, c.breakOffLocked)
	for range rounds {
		if o.now == nil {
			break
		}
		if o.gather(); o.closed {
			break
		}
		batch, n := o.take(), 0
		err := c.unlocked(func() (err error) {
			n, err = o.now.Write(batch)
			return err
		})
		if err != nil {
			gateway.PutBuffer(batch)
			c.fail(err)
			break
		}
		if n < len(batch) { // the system takes no more now
			o.rest, o.at = batch, n
			break
		}
		gateway.PutBuffer(batch)
		c.roomAgain()
		if len(o.out) == 0 && !o.closed { // which others may have done meanwhile
			o.sending = false
			return
		}
	}
	o.startWriter()
}

// gather lets others add to a small batch: those that are about to run.
func (o *output) gather() {
	if len(o.out) < smallBatch {
		o.c.mu.Unlock()
		runtime.Gosched()
		o.c.mu.Lock()
	}
}

// take empties the queue.
func (o *output) take() []byte {
	batch := o.out
	o.out, o.said = nil, 0
	return batch
}

// roomAgain wakes those that wait for what was queued to go.
func (c *conn) roomAgain() {
	if c.output.waiting() < outMost/2 {
		if c.wakeRoomWaiters(); c.clientSide != nil {
			c.clientSide.admit()
		}
	}
}

func (o *output) startWriter() {
	if o.writing {
		o.work.Signal()
		return
	}
	o.writing = true
	go o.run()
}

// run is the writer goroutine, which may wait for the system. Where writes have to wait it does all, and lives as long
// as the connection.
func (o *output) run() {
	defer gateway.CatchPanic(o.c.Log, o.c.Stats, o.replaceWriter)
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	for {
		switch {
		case o.waiting() > 0:
			o.writeSome()
		case o.closed:
			o.shut()
			return
		case o.now != nil:
			o.sending, o.writing = false, false
			return
		default:
			o.sending = false
			o.work.Wait()
		}
	}
}

// replaceWriter ends the connection after a panic of the writer, by another one unless the panic came behind the end.
func (o *output) replaceWriter() {
	select {
	case <-o.c.done:
		return
	default:
	}
	o.c.mu.Lock()
	o.writing = false
	o.c.mu.Unlock()
	o.c.breakOff()
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
	gateway.PutBuffer(batch)
	if err != nil {
		o.drop()
		o.c.fail(err)
		return
	}
	o.c.roomAgain()
}

func (o *output) drop() {
	gateway.PutBuffer(o.take())
	gateway.PutBuffer(o.rest)
	o.rest, o.at = nil, 0
}

// close lets the writer close the connection behind what is queued.
func (o *output) close() {
	o.closed = true
	if !o.sending || o.writing {
		o.sending = true
		o.startWriter()
	} // else who is sending starts it
}

// shut closes the connection.
func (o *output) shut() {
	linger := o.linger
	_ = o.c.unlocked(func() error {
		defer close(o.c.done)
		if linger > 0 {
			discard(o.c.net, linger)
		}
		return o.c.net.Close()
	})
}
