package disk

// This file computes the lengths of zlib streams, by RFC 1951. Repetitions are found as in its section 4, by
// chains of places that begin with the same three bytes. The size of a block (huffman.go) follows section
// 3.2. Nothing is written, only counted.

// effort limits the search. RFC 1951 describes each limit, zlib has the numbers.
type effort struct {
	greedy bool // take the first match, without looking for a longer one at the next byte
	good   int  // from this match length on, a quarter of the tries for a longer one
	lazy   int  // from this match length on, no try for a longer one. Greedy: no places are recorded within a longer match
	nice   int  // a match of this length is sufficient
	tries  int  // places to try
}

var efforts = [10]effort{
	1: {true, 4, 4, 8, 4},
	2: {true, 4, 5, 16, 8},
	3: {true, 4, 6, 32, 32},
	4: {false, 4, 4, 16, 16},
	5: {false, 8, 16, 32, 32},
	6: {false, 8, 16, 128, 128},
	7: {false, 8, 32, 128, 256},
	8: {false, 32, 128, 258, 1024},
	9: {false, 32, 258, 258, 4096},
}

const (
	window       = 32 << 10
	farthest     = window - longest - shortest - 1
	shortNear    = 4096       // farther back the shortest matches aren't worth it
	blockSymbols = 16<<10 - 1 // maximum per block
	chainBits    = 15

	// The zlib format around deflate, in bytes.
	zlibHeader  = 2
	zlibTrailer = 4
	// marker is an empty stored block: its length twice, from the next byte on.
	marker = 32
	// lastBlock has fixed codes, and only its end in it.
	lastBlock = 3 + 7
)

// deflater computes lengths of streams. It is not for concurrent use.
type deflater struct {
	effort
	data  []byte
	last  [1 << chainBits]int32 // last place with a hash of three bytes, plus 1
	chain [window]int32         // the previous one for each place
	block block
	bits  int
}

func (d *deflater) start(data []byte, level int) {
	d.data, d.effort, d.bits, d.block = data, efforts[level], 0, block{}
	clear(d.last[:])
}

// whole returns the length of one stream made by one call, as ZFS does.
func (d *deflater) whole(data []byte, level int) int {
	d.start(data, level)
	d.feed(0, len(data))
	d.bits += d.block.end(d.bits)
	return zlibHeader + roundUp(d.bits, 8)/8 + zlibTrailer
}

// pages returns the length of one stream as btrfs makes it: one page at a time with a flush after each, so
// that each page is a block of its own followed by a marker, and no match crosses its end. Each step outputs
// at most a page; if it fills the page, the marker is omitted, and the next step takes no input if it fills a
// page, too.
func (d *deflater) pages(unit []byte, level int) (n int, ok bool) {
	d.start(unit, level)
	d.bits = 8 * zlibHeader
	given := 0
	for at := 0; at < len(unit); {
		if filled := given > 0 && d.give(&given); !filled {
			end := min(at+btrfsBlock, len(unit))
			d.feed(at, end)
			d.bits += d.block.end(d.bits)
			if at = end; !d.give(&given) {
				d.bits = roundUp(d.bits+3, 8) + marker
				d.give(&given)
			}
		}
		if gaveUp(at, given) {
			return 0, false
		}
	}
	return roundUp(d.bits+lastBlock, 8)/8 + zlibTrailer, true
}

// give moves whole bytes to the current output page.
func (d *deflater) give(given *int) (filled bool) {
	room := btrfsBlock - *given%btrfsBlock
	n := min(d.bits/8-*given, room)
	*given += n
	return n == room
}

func (d *deflater) feed(at, end int) {
	if d.greedy {
		d.takeFirst(at, end)
	} else {
		d.takeLonger(at, end)
	}
}

func (d *deflater) takeFirst(at, end int) {
	for at < end {
		m := d.longer(at, end, shortest-1)
		if m.length == 0 {
			d.literal(at)
			at++
			continue
		}
		d.repeat(m)
		if m.length <= d.lazy {
			d.remember(at+1, at+m.length, end)
		}
		at += m.length
	}
}

// takeLonger defers a match until the next place has been tried.
func (d *deflater) takeLonger(at, end int) {
	held, open := match{length: shortest - 1}, false // of the previous place; whether it still has to be written
	for ; at < end; at++ {
		m := match{}
		if held.length < d.lazy {
			m = d.longer(at, end, held.length)
		} else {
			d.remember(at, at+1, end)
		}
		if m.length == shortest && m.distance > shortNear {
			m = match{}
		}
		if held.length >= shortest && m.length == 0 {
			d.repeat(held)
			d.remember(at+1, at+held.length-1, end)
			at += held.length - 2
			held, open = match{length: shortest - 1}, false
			continue
		}
		if open {
			d.literal(at - 1)
		}
		held, open = match{max(m.length, shortest-1), m.distance}, true
	}
	if open {
		d.literal(end - 1)
	}
}

// longer returns the best match of more than least bytes at a place, and records the place.
func (d *deflater) longer(at, end, least int) (best match) {
	earlier := d.swap(at, end)
	tries, most := d.tries, min(longest, end-at)
	if least >= d.good {
		tries /= 4
	}
	here := d.data[at : at+most]
	for ; earlier >= 0 && at-earlier <= farthest && tries > 0 && least < most; tries-- {
		if d.data[earlier+least] == here[least] {
			if n := alike(here, d.data[earlier:]); n > least {
				least, best = n, match{n, at - earlier}
				if n >= d.nice {
					break
				}
			}
		}
		next := int(d.chain[earlier%window]) - 1
		if next >= earlier {
			break // overwritten since
		}
		earlier = next
	}
	return best
}

// remember records the places of a range.
func (d *deflater) remember(from, to, end int) {
	for at := from; at < to; at++ {
		d.swap(at, end)
	}
}

// swap records a place, and returns the previous one in its chain, or a negative number.
func (d *deflater) swap(at, end int) (earlier int) {
	if at+shortest > end {
		return -1
	}
	b := d.data[at:]
	key := (int(b[0])<<10 ^ int(b[1])<<5 ^ int(b[2])) % len(d.last)
	earlier = int(d.last[key])
	d.chain[at%window], d.last[key] = int32(earlier), int32(at+1)
	return earlier - 1
}

func (d *deflater) literal(at int) {
	d.block.literal(d.data[at])
	d.full()
}

func (d *deflater) repeat(m match) {
	d.block.repeat(m)
	d.full()
}

func (d *deflater) full() {
	if d.block.symbols == blockSymbols {
		d.bits += d.block.end(d.bits)
	}
}
