package redis

import "testing"

// The slots of keys are those of Redis Cluster's specification.
func TestKeySlot(t *testing.T) {
	for key, slot := range map[string]int{
		"123456789": 0x31C3, "foo": 12182, "{foo}bar": 12182, "a{foo}{x}": 12182, "{}foo": keySlot([]byte("{}foo")), "foo{": keySlot([]byte("foo{")),
	} {
		if got := keySlot([]byte(key)); got != slot {
			t.Errorf("%s: slot %d, not %d", key, got, slot)
		}
	}
	if keySlot([]byte("{}foo")) == 12182 || keySlot([]byte("foo{")) == 12182 {
		t.Error("an empty or open tag counts")
	}
}

// Each slot belongs to one worker, and each worker has consecutive slots: those of a primary that redis-cli has given
// its slots, with as many primaries.
func TestSlotPart(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 4, 500, 1000} {
		count := make([]int, workers+1)
		last := 1
		for slot := range slotCount {
			worker := slotPart{1, workers}.workerOf(slot)
			if worker != last && worker != last+1 {
				t.Fatalf("%d workers: slot %d belongs to worker %d, the one before to %d", workers, slot, worker, last)
			}
			if last = worker; !(slotPart{worker, workers}).overlaps(slot, slot) || workers > 1 && (slotPart{worker%workers + 1, workers}).overlaps(slot, slot) {
				t.Fatalf("%d workers: slot %d overlaps other parts than %d", workers, slot, worker)
			}
			count[worker]++
		}
		for _, n := range count[1:] {
			if n < slotCount/workers || n > slotCount/workers+1 {
				t.Errorf("%d workers have %v slots", workers, count)
			}
		}
	}
	three := slotPart{2, 3} // redis-cli: 0-5460, 5461-10922, 10923-16383
	if three.overlaps(0, 5460) || !three.overlaps(5461, 5461) || !three.overlaps(10922, 16383) || three.overlaps(10923, 16383) {
		t.Error("the second of three parts is not 5461 to 10922")
	}
	if !(slotPart{}).overlaps(7, 7) {
		t.Error("the zero value is not all slots")
	}
}
