package redis

import "testing"

func TestShareOfCursor(t *testing.T) {
	// What redis-server gave for a table of 8 buckets, in this order.
	last := -1.0
	for i, cursor := range []string{"", "4", "2", "6", "1", "5", "3", "7"} {
		if got := (&Space{}).Share(cursor); got != float64(i)/8 || got <= last {
			t.Errorf("cursor %s: %v", cursor, got)
		}
	}
}
