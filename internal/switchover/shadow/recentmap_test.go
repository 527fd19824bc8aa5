package shadow

import "testing"

// At least the last half of most values is kept, and never more than most.
func TestRecent(t *testing.T) {
	const most = 10
	var r Recent[int, int]
	for i := range 5 * most {
		r.Put(i, i+1, most)
		r.Put(i, i+2, most) // replaces the value, and adds none
		for k := range i + 1 {
			switch v, ok := r.Get(k); {
			case ok && v != k+2:
				t.Fatalf("%d after %d: %d", k, i, v)
			case !ok && k > i-most/2, ok && k <= i-most:
				t.Fatalf("%d after %d: held %v", k, i, ok)
			}
		}
		if n := len(r.young) + len(r.old); n > most {
			t.Fatalf("%d are held", n)
		}
	}
	r.Put(0, 1, most)
	if v, ok := r.Get(0); v != 1 || !ok {
		t.Errorf("put again: %d, %v", v, ok)
	}
}
