package redis

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/store"
)

// slotCount is the number of slots of any cluster.
const slotCount = 16384

// slotPart is the slots of one of several workers, numbered from 1. Each worker has consecutive slots, as many as
// 'redis-cli --cluster create' gives to each of as many primaries, so that with a worker for each primary most work on
// one primary. The zero value is all slots.
type slotPart struct{ worker, workers int }

// overlaps reports whether any slot from first to last belongs to the part.
func (p slotPart) overlaps(first, last int) bool {
	return p.workers <= 1 || p.workerOf(first) <= p.worker && p.worker <= p.workerOf(last)
}

// workerOf returns the number of the worker that a slot belongs to.
func (p slotPart) workerOf(slot int) int { return (2*slot+1)*p.workers/(2*slotCount) + 1 }

// keySlot returns the slot of a key. If the key has a tag in braces, the slot depends on the tag only.
func keySlot(key []byte) int {
	if start := bytes.IndexByte(key, '{') + 1; start > 0 {
		if length := bytes.IndexByte(key[start:], '}'); length > 0 {
			key = key[start : start+length]
		}
	}
	return int(store.CRC16(key)) % slotCount
}

// Part implements store.Store. In a cluster each worker has a part of the slots, and does not scan primaries that have
// none of these. Elsewhere keys are divided by a hash, and each worker scans everything.
func (s *Store) Part(worker, workers int) (targets []store.Target, own func(key []byte) bool) {
	if s.cluster == nil || workers <= 1 {
		return s.Targets(), store.HashPart(worker, workers)
	}
	s.part = slotPart{worker, workers}
	has := map[string]bool{}
	for _, slots := range s.opened {
		if s.part.overlaps(slots.Start, slots.End) {
			has[s.reachable(slots.Nodes[0].Addr)] = true
		}
	}
	for _, t := range s.Targets() {
		if has[t.Node.Name()] {
			targets = append(targets, t)
		}
	}
	return targets, func(key []byte) bool { return s.part.workerOf(keySlot(key)) == worker }
}
