package page

import "testing"

// Rows share a scale that includes zero, and intervals beyond the edge are cut there.
func TestAcross(t *testing.T) {
	d := (&Intervals{Unit: "%", Rows: []Span{{At: 5, Low: -20, High: 20, Margin: 10}, {At: 400, Low: -50, High: 900}}}).Drawn()
	for _, r := range d.Rows {
		if r.Low < acrossLeft || r.High > acrossRight || r.At > acrossRight {
			t.Errorf("%+v", r)
		}
	}
	if a, b := d.Rows[0], d.Rows[1]; !a.HasMargin || a.More || a.Low >= d.Zero || d.Zero >= a.At || a.At >= a.Margin || a.Margin >= a.High || !b.More || b.Less || b.HasMargin {
		t.Errorf("%+v", d)
	}
	if len(d.Ticks) < 3 || d.Rows[0].Tip != "-20% to +20%" {
		t.Errorf("%+v", d)
	}
	one := (&Intervals{Rows: []Span{{}}}).Drawn()
	if one.Rows[0].At != one.Zero || one.Zero <= acrossLeft || one.Zero >= acrossRight {
		t.Errorf("%+v", one)
	}
}
