package mongo

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy/budget"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// fakeLinkStream is a stream of a link.
type fakeLinkStream struct{}

func (*fakeLinkStream) KeepOut(bool) {}

// With a used-up budget messages are sent plain: requests to servers, replies to clients that compress, and
// messages over links. Without the budget all are compressed again.
func TestBudgetUsedUp(t *testing.T) {
	p := newParts(t, withZstd)
	limits := gateway.NewEffort()
	p.g.effort = limits
	p.accepted.Store(1<<wire.Zstd | 1<<wire.Snappy)
	limits.SetLimits(budget.Limits{Cores: 0.001})
	var text bytes.Buffer
	for i := range 400_000 {
		fmt.Fprintf(&text, "%d,", i*i)
	}
	large := opMsg(1, 0, command("insert", "users", bson.E{Key: "text", Value: text.String()}))
	var first exchange
	_, pooled, _ := p.rewrite(requestOf(t, large), &first) // takes far more than the millisecond in the bucket
	if first.reason != "" {
		t.Errorf("the first: %q", first.reason)
	}
	memory.PutBuffer(pooled)
	insert := opMsg(1, 0, command("insert", "users", manyDocuments))
	reply := replyOf(t, bson.D{{Key: "ok", Value: 1}, manyDocuments})
	decide := func(reason string) {
		t.Helper()
		var x exchange
		out, pooled, _ := p.rewrite(requestOf(t, insert), &x)
		defer memory.PutBuffer(pooled)
		if x.reason != reason || (len(out) < len(insert)) != (reason == "") {
			t.Errorf("%q, %d of %d bytes", x.reason, len(out), len(insert))
		}
		out, formed := p.encodeReply(&exchange{replyCompressor: wire.Zlib}, reply)
		defer memory.PutBuffer(formed)
		if h, _ := wire.ParseHeader(out); (h.OpCode == wire.OpCompressed) != (reason == "") {
			t.Errorf("a reply has opcode %d", h.OpCode)
		}
	}
	decide(gateway.SteppedDown)
	p.toServer.stream = new(fakeLinkStream)
	if _, _, covered := p.rewrite(requestOf(t, insert), &exchange{}); covered {
		t.Error("the link compresses a request")
	}
	p.toServer.stream = nil
	limits.SetLimits(budget.Limits{})
	decide("")
}

// Messages sent plain count as in time, so that the latency budget later allows compressing again.
func TestLatencyRecovers(t *testing.T) {
	c := compressionBy(t, withZstd)
	c.effort = gateway.NewEffort()
	c.effort.SetLimits(budget.Limits{Latency: time.Minute})
	for range 100 {
		c.effort.RecordLatency(time.Hour)
	}
	for i := range 10_000 {
		id, level := c.limitEffort(wire.Zstd, 9, 5000, 0)
		if id == wire.Zstd && level == 9 {
			t.Logf("after %d messages", i)
			return
		}
		if id != plain { // as if it had been compressed
			c.effort.RecordLatency(time.Microsecond)
		}
	}
	t.Error("no message is compressed again")
}

// The lower steps use only compressors that the server accepts.
func TestLowered(t *testing.T) {
	c := compressionBy(t, withZstd)
	for taken, want := range map[compressorSet][]wire.CompressorID{
		1 << wire.Zstd:                {wire.Zstd, plain},
		1<<wire.Zstd | 1<<wire.Snappy: {wire.Zstd, wire.Snappy, plain},
		1<<wire.Zstd | 1<<wire.Zlib:   {wire.Zstd, plain},
	} {
		c.effort = gateway.NewEffort()
		c.effort.SetLimits(budget.Limits{Latency: time.Nanosecond})
		seen := map[wire.CompressorID]bool{}
		for range 1000 {
			id, level := c.limitEffort(wire.Zstd, 9, 5000, taken)
			if seen[id] = true; id == wire.Zstd && level != 9 && level != 1 {
				t.Errorf("level %d", level)
			}
			c.effort.RecordLatency(time.Microsecond) // always late
		}
		if len(seen) != len(want) {
			t.Errorf("of %b it takes %v, want %v", taken, seen, want)
		}
	}
}
