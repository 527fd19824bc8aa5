package price

import "testing"

// Computed by hand: of 300 GB saved, two thirds would have crossed zones at 2 cents a GB: 4 dollars. 10 hours
// of a CPU at 4.25 cents: 42.5 cents.
func TestSaving(t *testing.T) {
	r := Rates{Table: table(t), Cloud: "aws", Zones: 3}
	done := Work{SavedBytes: 300e9, CPUSeconds: 36000}
	s := r.Saving(done)
	about(t, "traffic", s.Traffic, 4, 1e-9)
	about(t, "CPU", s.CPU, 0.425, 1e-9)
	about(t, "net", s.Net(), 3.575, 1e-9)
	about(t, "a month, of ten hours of 730", r.Month(done, 36000).Net(), 3.575*73, 1e-9)
	if s := r.Month(done, 0); s != (Saving{}) {
		t.Errorf("in no time: %+v", s)
	}
	r.Zones = 1
	if s := r.Saving(done); s.Traffic != 0 || s.Net() != -s.CPU {
		t.Errorf("in one zone: %+v", s)
	}
	if d := done.Add(done).Since(done); d != done {
		t.Errorf("%+v", d)
	}
	for _, p := range r.Used() {
		if p.Entry != r.Table[p.Name] || p.Source == "" {
			t.Errorf("%+v", p)
		}
	}
}
