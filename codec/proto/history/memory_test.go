package history

import (
	"runtime"
	"testing"
)

// What is estimated is what is held, and not several times as much; both ends estimate alike.
func TestBytes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w, r := &Writer{}, &Reader{}
	var sent, back []byte
	for i := range 20 {
		var message []byte
		for instance := range 30 {
			message = append(message, scrape(instance, i)...)
		}
		sent = w.Append(sent[:0], message)
		var err error
		if back, err = r.Append(back[:0], sent, MaxBytes); err != nil {
			t.Fatal(err)
		}
	}
	estimate := w.Bytes() + r.Bytes()
	w.coder, r.coder = coder{}, coder{}
	w.text, w.fields, w.counts, r.scratch, sent, back = nil, nil, nil, nil, nil, nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int(after.HeapAlloc) - int(before.HeapAlloc)
	if estimate < held || estimate > 4*held {
		t.Errorf("%d bytes estimated, %d held", estimate, held)
	}
	runtime.KeepAlive(w)
	runtime.KeepAlive(r)
}
