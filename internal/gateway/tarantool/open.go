package tarantool

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// reply is one answer of the server's while it is handled. It is used again for the next.
type reply struct {
	bytes  []byte // the frame without its length
	header wire.Header
	body   wire.Body
	kind   wire.Type // of the request
}

// strings are all in the reply's body.
func (r *reply) strings() wire.Strings {
	return wire.NewStrings(r.bytes, wire.Span{At: r.body.At, Len: r.body.End - r.body.At})
}

// envelope reads the header of a string that is one, or should be.
func (r *reply) envelope(content []byte) (h cinch.Header, ok bool, err error) {
	if !cinch.IsSealed(content) {
		return h, false, nil
	}
	if h, err = cinch.ParseHeader(content); err == nil && h.IsForeign() {
		return h, true, errForeign
	}
	return h, err == nil || !r.computed(), err // what Lua makes is any bytes
}

// computed reports that a reply holds what Lua or SQL made, not only what is stored.
func (r *reply) computed() bool {
	switch r.kind {
	case wire.Call, wire.Call16, wire.Eval, wire.Execute, wire.Event:
		return true
	}
	return false
}

// maxHead is the longest head of a string.
const maxHead = 5

// opener opens the envelopes in replies to one client, within the reply budget.
type opener struct {
	vault  *vault
	room   *gateway.Account // nil: no bound
	ctx    context.Context  // ends with the session
	flush  func() error     // what the client has not been sent yet
	stall  time.Duration
	client net.Addr

	held int64 // of the budget, for what was opened
}

// open gives a reply with its envelopes opened, in a buffer of the pool's; nil when nothing
// changes. What it takes from the budget is held until release.
func (o *opener) open(r *reply, kind wire.Type) ([]byte, *refusal) {
	r.kind = kind
	at := r.header.Map.End()
	if kind != wire.ID && !hasMagic(r.bytes[at:]) {
		return nil, nil
	}
	if err := r.body.Parse(r.bytes, at); err != nil {
		o.vault.Stats.Error("upstream_malformed")
		return nil, &refusal{wire.ErrSystem, "malformed", "cinch: the server's reply is malformed: " + err.Error()}
	}
	if kind == wire.ID {
		return withoutFeatures(r.bytes, &r.body), nil
	}
	size, err := o.size(r)
	if err != nil {
		return nil, o.broken(err)
	}
	if size == 0 {
		return nil, nil
	}
	if err := o.reserve(size); err != nil {
		o.vault.Stats.Error("budget")
		return nil, &refusal{wire.ErrNoMemory, "budget", fmt.Sprintf("cinch: a reply of %d bytes does not fit the memory budget", size)}
	}
	out, err := o.openAll(r, size)
	if err != nil {
		return nil, o.broken(err)
	}
	return out, nil
}

// size looks for the envelopes in a reply, and returns how many bytes it has at most when they are
// opened, 0 when there are none. They are looked for again to be opened, for a list of them could
// take more memory than the reply.
func (o *opener) size(r *reply) (size int, err error) {
	found := false
	size = len(r.bytes)
	strings := r.strings()
	for strings.Next() {
		content := strings.Content.Of(r.bytes)
		h, ok, err := r.envelope(content)
		if !ok {
			continue
		}
		found = true
		if err == nil && h.RawLen > o.vault.maxOpen() {
			err = fmt.Errorf("%w: %d bytes, at most %d are opened", cinch.ErrTooLarge, h.RawLen, o.vault.maxOpen())
		}
		if err != nil {
			return 0, err
		}
		size += h.RawLen - len(content) + maxHead
		if size > maxFrame {
			return 0, fmt.Errorf("%w: the reply would have over %d bytes", cinch.ErrTooLarge, maxFrame)
		}
	}
	if !found {
		return 0, strings.Err()
	}
	return size, strings.Err()
}

// openAll makes the frame with the values in place of their envelopes.
func (o *opener) openAll(r *reply, size int) ([]byte, error) {
	out := wire.BeginFrame(gateway.GetBuffer(size + maxHead))
	last := 0
	strings := r.strings()
	for strings.Next() {
		stored := strings.Content.Of(r.bytes)
		h, ok, _ := r.envelope(stored)
		if !ok {
			continue
		}
		out = append(out, r.bytes[last:strings.At]...)
		out = wire.AppendHead(out, strings.Kind, h.RawLen)
		opened, err := o.vault.open(out, stored, &h)
		if err != nil {
			gateway.PutBuffer(out)
			return nil, err
		}
		out = opened
		last = strings.Content.End()
	}
	return wire.FinishFrame(append(out, r.bytes[last:]...), 0), nil
}

// reserve takes room for a large reply from the budget. It waits for a limited time only.
func (o *opener) reserve(size int) error {
	if size <= gateway.FreeBytes || o.room == nil {
		return nil
	}
	if !o.room.TryAcquire(int64(size)) {
		if err := o.flush(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(o.ctx, reservePatience*o.stall)
		defer cancel()
		if err := o.room.Acquire(ctx, int64(size)); err != nil {
			return err
		}
	}
	o.held = int64(size)
	return nil
}

// reservePatience is how many times Stall a reply waits for room.
const reservePatience = 5

// release gives back what reserve took, when the reply is on its way.
func (o *opener) release() {
	o.room.Release(o.held)
	o.held = 0
}

// broken is what to tell the client when a sealed value does not open.
func (o *opener) broken(cause error) *refusal { return o.vault.broken(cause, o.client.String()) }
