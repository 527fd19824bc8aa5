package redis

import (
	"bytes"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// observe seals a value, opens and compares it, counts what came out and forgets it: so a rule's saving and cost are known on live traffic before anything is stored.
// Of a long one there is a third copy then, beside the value and its sealed form. Without memory for that it is not observed.
func (v *seals) observe(t policy.Type, value []byte, st codec.Setting, rule *policy.Rule) {
	if n := int64(len(value)); n > gateway.FreeBytes {
		if !v.st.tx.account.TakeSpare(n) {
			v.vault.Stats.Error("budget")
			return
		}
		defer v.st.tx.account.Release(n)
	}
	var out []byte
	var did gateway.Compressed
	if v.ahead != nil && v.ahead.is(value, st) {
		out, did = v.ahead.seal(len(value), rule, t)
	} else {
		out, did = v.vault.Compress(nil, value, rule, st, t)
	}
	defer gateway.PutBuffer(out)
	stats := v.vault.Stats
	stats.Latency(did.Took)
	stats.Left(rule.Name, "observed", len(value))
	if !did.Sealed {
		stats.Observed(rule.Name, did.Setting.Codec, len(value), len(value), did.Spent, 0)
		return
	}
	began, stint := time.Now(), v.vault.Effort.Begin(len(value)) // it is done for the count alone, so it counts
	back, err := v.vault.Sealer.Open(gateway.GetBuffer(len(value)), out)
	stint.End()
	opened := time.Since(began)
	defer gateway.PutBuffer(back)
	if err != nil || !bytes.Equal(back, value) {
		stats.Error("observed_mismatch")
		v.vault.log.Error("a value that a rule observes does not open as it was", "rule", rule.Name, "bytes", len(value), "err", err)
		return
	}
	stats.Latency(opened)
	stats.Observed(rule.Name, did.Codec, len(value), len(out), did.Spent, opened)
}
