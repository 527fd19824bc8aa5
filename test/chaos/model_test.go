package chaos

import (
	"fmt"
	"maps"
	"strings"
)

// op is one command on keys that only one client uses. apply does its effect to a copy of the stored data.
type op struct {
	args  []string
	apply func(stored map[string]string)
}

// unit is executed completely or not at all: a command, or a transaction.
type unit []op

// history records the units that one client has sent. The server executes them in order, so after a crash
// the store holds the result of the first n, for some n that is at least the number of acknowledged ones.
type history struct {
	before map[string]string // data stored before the first unit
	units  []unit
	acked  int
}

// stateAfter returns the data after the first n units.
func (h *history) stateAfter(n int) map[string]string {
	state := maps.Clone(h.before)
	for _, u := range h.units[:n] {
		for _, o := range u {
			o.apply(state)
		}
	}
	return state
}

// explain finds the n whose data equals stored, and makes that the new start.
func (h *history) explain(stored map[string]string) error {
	state := h.stateAfter(h.acked)
	for n := h.acked; ; n++ {
		if maps.Equal(state, stored) {
			h.before, h.units, h.acked = state, nil, 0
			return nil
		}
		if n == len(h.units) {
			break
		}
		for _, o := range h.units[n] {
			o.apply(state)
		}
	}
	return fmt.Errorf("the store holds no state between unit %d (acknowledged) and %d (sent): %s",
		h.acked, len(h.units), differences(h.stateAfter(h.acked), stored))
}

// differences describes briefly how b differs from a.
func differences(a, b map[string]string) string {
	var out strings.Builder
	for k, v := range a {
		if w, ok := b[k]; !ok {
			fmt.Fprintf(&out, "\n  %s is missing, last acknowledged %.60q (%d bytes)", k, v, len(v))
		} else if v != w {
			fmt.Fprintf(&out, "\n  %s holds %.60q…%.20q (%d bytes), last acknowledged %.60q…%.20q (%d bytes)",
				k, w, w[max(0, len(w)-20):], len(w), v, v[max(0, len(v)-20):], len(v))
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			fmt.Fprintf(&out, "\n  %s is there, and was not at the last acknowledgement", k)
		}
	}
	return out.String()
}
