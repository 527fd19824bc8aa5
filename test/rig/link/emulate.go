package link

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link forwards to a server over an emulated link: half of the round trip in each direction, and a rate that
// all connections share in each direction. It sleeps with nanosleep, since Go's timers are too coarse for
// these measurements.
type link struct {
	server    string
	delay     time.Duration // one way
	listener  net.Listener
	up, down  lane
	perSecond float64 // bytes; 0: no limit
}

// lane is one direction.
type lane struct {
	bytes atomic.Int64

	mu   sync.Mutex
	free time.Time // when the bytes sent so far have left
}

// segment is the number of bytes sent at a time, about that of a TCP segment.
const segment = 1448

func startLink(listen, server string, roundTrip time.Duration, mbit float64) (*link, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	k := &link{server: server, delay: roundTrip / 2, listener: l, perSecond: mbit * 1e6 / 8}
	go k.serve()
	return k, nil
}

func (k *link) serve() {
	for {
		c, err := k.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", k.server)
		if err != nil {
			_ = c.Close()
			continue
		}
		go k.carry(&k.up, s, c)
		go k.carry(&k.down, c, s)
	}
}

// parcel holds bytes and the time at which they arrive.
type parcel struct {
	bytes []byte
	at    time.Time
}

func (k *link) carry(l *lane, dst, src net.Conn) {
	defer src.Close()
	parcels := make(chan parcel, 4096)
	go deliver(dst, parcels)
	defer close(parcels)
	for {
		buf := make([]byte, 64<<10)
		n, err := src.Read(buf)
		now := time.Now()
		for b := buf[:n]; len(b) > 0; {
			part := b[:min(len(b), segment)]
			if k.perSecond == 0 {
				part = b
			}
			b = b[len(part):]
			parcels <- parcel{part, k.leave(l, now, len(part)).Add(k.delay)}
		}
		if err != nil {
			return
		}
	}
}

// leave returns the time when n more bytes have left.
func (k *link) leave(l *lane, now time.Time, n int) time.Time {
	l.bytes.Add(int64(n))
	if k.perSecond == 0 {
		return now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / k.perSecond * 1e9))
	return l.free
}

func deliver(dst net.Conn, parcels <-chan parcel) {
	defer dst.Close()
	for p := range parcels {
		if wait := time.Until(p.at); wait > 0 {
			sleep(wait)
		}
		if _, err := dst.Write(p.bytes); err != nil {
			for range parcels { // so that the other side does not block
			}
			return
		}
	}
}
