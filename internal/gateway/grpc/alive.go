package grpc

import "time"

// pings say when a server that says nothing is asked whether it is there. The
// system notices a dead peer after a quarter of an hour only, if something is under way to it.
//
// Servers punish pings: grpc-go's takes two between one header or message of its own and the
// next, and then one in five minutes; at the next it ends the connection. Without calls it
// wants none, and nobody waits for anything then.
type pings struct {
	every  time.Duration // between two looks at a connection
	silent time.Duration // in which nothing was heard
	answer time.Duration // that the answer to a ping may take
	apart  time.Duration // between two pings when there were freePings already
}

const freePings = 2

var defaultPings = pings{every: 5 * time.Second, silent: 20 * time.Second, answer: 15 * time.Second, apart: 6 * time.Minute}

// watch pings the server when it is silent though calls wait, and closes the connection when
// there is no answer. It lives as long as the connection.
func (p pings) watch(h *hop) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	var sent int
	var heard int64
	var last time.Time
	for {
		select {
		case <-h.Conn.Done():
			return
		case <-tick.C:
		}
		if now := h.heard.Load(); now != heard {
			heard, sent = now, 0
		}
		if h.Conn.Silence() < p.silent || h.Active() == 0 || sent >= freePings && time.Since(last) < p.apart {
			continue
		}
		sent, last = sent+1, time.Now()
		if !h.ping(p.answer) {
			h.giveUp()
			return
		}
	}
}
