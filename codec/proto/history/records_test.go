package history

import "testing"

// Messages that recur with other numbers, in another order, with more or fewer fields, take little more than
// the numbers.
func TestRecordsAgain(t *testing.T) {
	var s session
	raw, sent := 0, 0
	for at := range 60 {
		m := points(at)
		n := len(s.send(t, m))
		if at >= 30 {
			raw, sent = raw+len(m), sent+n
		}
	}
	if sent*15 > raw {
		t.Errorf("%d bytes of %d", sent, raw)
	}
	for _, r := range []*model{&s.w.model, &s.r.model} {
		if made := len(r.recs.all); made < 2 || made > 400 {
			t.Errorf("%d records", made)
		}
	}
}

// A message that differs from a record in one byte does not match it.
func TestAlmostRecord(t *testing.T) {
	record := func(text string, v uint64, more []byte) []byte {
		inner := varintField(bytesField(nil, 1, text), 2, v)
		other := bytesField(nil, 3, varintField(bytesField(nil, 1, text), 2, v*1000+777))
		return bytesField(bytesField(nil, 1, append(bytesField(nil, 3, inner), more...)), 1, other)
	}
	var s session
	for i := range 100 {
		s.send(t, record("same", uint64(i), nil))
	}
	if len(s.w.recs.all) < 2 {
		t.Fatal("no records")
	}
	for i, b := range [][]byte{
		record("sane", 1, nil), record("same!", 1, nil), record("", 1, nil), record("same", 1<<63, nil),
		record("same", 1, varintField(nil, 9, 1)), record("same", 1, []byte{0xff}), record("same", 1, []byte{0x1a, 0x05, 1}),
		{0x0a, 0x80, 0x00},
		{0x0a, 0x04, 0x1a, 0x02, 0x10, 0x01},
		{0x0a, 0x05, 0x1a, 0x83, 0x00, 0x10, 0x01},
	} {
		s.send(t, append(record("same", uint64(i), nil), b...))
	}
	if n := len(s.send(t, record("same", 7, nil))); n > 14 {
		t.Errorf("%d bytes for one that came before", n)
	}
}
