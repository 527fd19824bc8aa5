package policy

import "math/bits"

// This file models the server's own accounting: how many bytes Redis (7.x, on jemalloc, 64 bits) holds for a
// value of n bytes. It counts what MEMORY USAGE counts, without what does not depend on the value (key,
// dictionary entry).
//
// String of up to 44 bytes, one allocation ("embstr"):
//
//	| robj 16 | sdshdr8 3 | value n | NUL |
//
// Longer, two allocations ("raw"):
//
//	| robj 16 |     | sdshdr 3, 5, 9 or 17 | value n | NUL |
//
// Hash: in a listpack while each of its fields and values has at most 64 bytes (hash-max-listpack-value),
// otherwise one sds each. Stream: listpacks.
// A listpack entry:
//
//	| encoding and length 1, 2 or 5 | value n | length backwards 1 to 5 |
//
// A listpack holds many entries in one allocation, so their bytes are not rounded. Everything else is rounded
// up to jemalloc's size classes.

const (
	robjSize        = 16
	embstrMax       = 44
	listpackMaxHash = 64 // hash-max-listpack-value
)

// allocSize rounds a request up to jemalloc's size class (16-byte quantum, 4 KiB pages): 8, then multiples of
// 16 up to 128, then four steps per doubling without end (160, 192, 224, 256, 320 …). From 16 KiB on, classes
// are multiples of a page.
func allocSize(n int) int {
	switch {
	case n <= 8:
		return 8
	case n <= 128:
		return (n + 15) &^ 15
	}
	step := 1 << (bits.Len(uint(n-1)) - 3) // a quarter of the power of two below n
	return (n + step - 1) &^ (step - 1)
}

// sdsSize returns the size of a string's allocation with its header. sdshdr5 (one byte, below 32) is used for
// hash values, never for string values: those are embstr.
func sdsSize(n int) int {
	header := 17
	switch {
	case n < 1<<5:
		header = 1
	case n < 1<<8:
		header = 3
	case n < 1<<16:
		header = 5
	case uint64(n) < 1<<32:
		header = 9
	}
	return allocSize(header + n + 1)
}

func stringSize(n int) int {
	if n <= embstrMax {
		return allocSize(robjSize + 3 + n + 1)
	}
	return allocSize(robjSize) + sdsSize(n)
}

func listpackSize(n int) int {
	entry := n + 5
	switch {
	case n < 1<<6:
		entry = n + 1
	case n < 1<<12:
		entry = n + 2
	}
	return entry + backlenSize(entry)
}

// backlenSize returns how many 7-bit groups listpack.c uses for an entry's length. From two groups on, it
// leaves the last value of each width unused, as listpack.c does.
func backlenSize(entry int) int {
	switch {
	case entry <= 127:
		return 1
	case entry < 1<<14-1:
		return 2
	case entry < 1<<21-1:
		return 3
	case entry < 1<<28-1:
		return 4
	}
	return 5
}

// Cost returns how many bytes the server allocates for a value of raw bytes, and for one of sealed bytes in
// its place. A hash whose value is too long for a listpack is counted as a hashtable in both cases: it stays
// one when the value shrinks in place, so more can't be promised.
func Cost(t Type, raw, sealed int) (before, after int) {
	switch {
	case t == Tuple, t == Argument: // Tarantool allocates tuples of any length from slabs
		return raw, sealed
	case t == Stream, t == Hash && raw <= listpackMaxHash && sealed <= listpackMaxHash:
		return listpackSize(raw), listpackSize(sealed)
	case t == Hash:
		return sdsSize(raw), sdsSize(sealed)
	}
	return stringSize(raw), stringSize(sealed)
}

// SavesEnough reports whether storing sealed bytes instead of raw ones saves at least the rule's minimum share of
// the server's allocation. Strings of 109 to 124 bytes all have the same allocation, so turning 124 into 109
// is never worth it.
func (r *Rule) SavesEnough(t Type, raw, sealed int) bool {
	if r.forced {
		return true
	}
	before, after := Cost(t, raw, sealed)
	return after < before && float64(before-after) >= r.MinGain*float64(before)
}

// SavesEnoughFunc is SavesEnough with the type bound. The compiler inlines it, so that it allocates nothing unless the
// caller keeps it.
func (r *Rule) SavesEnoughFunc(t Type) func(raw, sealed int) bool {
	return func(raw, sealed int) bool { return r.SavesEnough(t, raw, sealed) }
}
