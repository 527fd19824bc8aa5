package disk

import (
	"bytes"
	"math/bits"
	"slices"
)

// The kernel's heuristic samples 16 bytes of every 256.
const (
	probeEvery = 256
	probeBytes = 16

	setSmall    = 64 // data with fewer different bytes is compressible
	coreLow     = 64 // data is compressible if this many different bytes, or fewer, make up 90 % of it
	coreHigh    = 200
	entropyGood = 65 // in percent
	entropyBad  = 80
)

func compressible(data []byte) bool {
	data = data[:min(len(data), btrfsUnit)]
	probe := make([]byte, 0, btrfsUnit/probeEvery*probeBytes)
	for at := 0; at+probeBytes <= len(data); at += probeEvery {
		probe = append(probe, data[at:at+probeBytes]...)
	}
	if half := len(probe) / 2; half == 0 || bytes.Equal(probe[:half], probe[half:2*half]) {
		return true
	}
	var counts [256]int
	for _, c := range probe {
		counts[c]++
	}
	different := 0
	for _, n := range counts {
		if n > 0 {
			different++
		}
	}
	if different < setSmall {
		return true
	}
	sorted := counts[:]
	slices.SortFunc(sorted, func(a, b int) int { return b - a })
	switch core := coreSet(sorted, len(probe)); {
	case core <= coreLow:
		return true
	case core >= coreHigh:
		return false
	}
	return entropy(sorted, len(probe)) < entropyBad
}

// coreSet returns how many different bytes make up 90 %.
func coreSet(sorted []int, total int) int {
	most, sum := total*90/100, 0
	for i, n := range sorted {
		if i >= coreHigh || n == 0 {
			return i
		}
		sum += n
		if sum > most {
			return max(i, coreLow)
		}
	}
	return len(sorted)
}

// entropy returns Shannon's entropy in percent of the maximum, in the kernel's integer arithmetic.
func entropy(sorted []int, total int) int {
	base, sum := log4(total), 0
	for _, n := range sorted {
		if n > 0 {
			sum += n * (base - log4(n))
		}
	}
	return sum / total * 100 / (8 * log4(2))
}

// log4 returns four times the base-2 logarithm, rounded down.
func log4(n int) int {
	v := uint64(n)
	return bits.Len64(v*v*v*v) - 1
}
