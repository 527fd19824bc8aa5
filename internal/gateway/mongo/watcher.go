package mongo

import (
	"context"
	"net"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// watcher is the session of a driver that watches a standby.
type watcher struct {
	standby *standby
	client  net.Conn
	stats   *gateway.Stats
	in      reader
	req     request
}

// watcherAuth makes the AuthGates of watching drivers, which never log in, limit their messages to
// gateway.MaxUnauthenticatedBytes.
var watcherAuth = gateway.AuthProbe{Ask: func(context.Context) (closed bool, err error) { return true, nil }}

// newWatcher returns the session of a driver. room is the account for its messages.
func newWatcher(s *standby, client net.Conn, room *memory.Account, stats *gateway.Stats) *watcher {
	in := gateway.Inbound{
		Conn: client, Peer: memory.FromClient, Ctx: s.ctx, Account: room,
		AuthGate: &gateway.AuthGate{Probe: &watcherAuth},
	}
	return &watcher{standby: s, client: client, stats: stats, in: reader{Inbound: in, allowed: new(atomic.Uint32)}}
}

// Run replies to requests until the driver ends.
func (w *watcher) Run() {
	defer w.in.Account.Close()
	defer w.client.Close()
	defer w.in.Free()
	for {
		m, err := w.in.next()
		if err == nil {
			err = w.answer(m)
		}
		if err != nil {
			gateway.LogEnd(w.standby.addresses.log, w.stats, w.client, memory.FromClient, errorClasses.Of(err), err)
			return
		}
	}
}

// Drain closes the connection: no request is lost.
func (w *watcher) Drain() { _ = w.client.Close() }

// Close implements io.Closer.
func (w *watcher) Close() error { return gateway.Abort(w.client) }

func (w *watcher) answer(m message) error {
	r := &w.req
	r.received, r.plain, r.header, r.compressor = m.received, m.received, m.header, m.compressor
	if err := r.parse(); err != nil || !r.hasReply {
		return err
	}
	doc, err := w.reply()
	if err != nil {
		return err
	}
	_, err = w.client.Write(replyTo(r.header, doc))
	return err
}

const codeNotPrimaryOrSecondary = 13436

func (w *watcher) reply() ([]byte, error) {
	switch {
	case w.req.traits&isHello != 0:
		doc, set, err := w.standby.memberHello()
		if err != nil {
			return nil, err
		}
		return appendArbiter(nil, doc, w.me(), w.standby.addresses.standbysOf(set), w.rename)
	case string(w.req.name) == "ping", string(w.req.name) == "endSessions":
		return wire.FinishDocument(bsoncore.AppendDoubleElement([]byte{0, 0, 0, 0}, "ok", 1), 0), nil
	}
	return errorDoc(codeNotPrimaryOrSecondary, "NotPrimaryOrSecondary", "this gateway is a standby and accepts no operations"), nil
}

// me returns the address at which the driver has found the gateway.
func (w *watcher) me() string {
	if a := w.standby.addresses.own.Load(); a != nil {
		return a.AddressFor(w.client.LocalAddr())
	}
	return w.client.LocalAddr().String()
}

func (w *watcher) rename(member []byte) (string, bool) {
	return w.standby.addresses.addressOf(member, w.client.LocalAddr())
}
