package link

import (
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

const (
	sampleBytes = 4 << 10 // shorter frames and pieces are not measured
	newest      = 0.1     // weight of the latest sample in averages
	tellPause   = time.Second
	psPerNs     = 1000
)

// arrival measures how fast large frames arrive after their first bytes: the bandwidth that the link gets.
type arrival struct {
	perByte float64 // average, in nanoseconds
	told    time.Time
}

// add adds a sample: of a frame of size bytes the last rest bytes arrived within took. tell reports whether the peer
// should be told the average now, ps, in picoseconds a byte.
func (a *arrival) add(size, rest int, took time.Duration, now time.Time) (ps uint32, tell bool) {
	if size < sampleBytes || rest <= 0 {
		return 0, false
	}
	sample := float64(took) / float64(rest)
	if a.perByte == 0 {
		a.perByte = sample
	}
	a.perByte += newest * (sample - a.perByte)
	if now.Sub(a.told) < tellPause {
		return 0, false
	}
	a.told = now
	return uint32(min(max(a.perByte*psPerNs, 1), 1<<32-1)), true
}

// speed holds the measurements for one peer: the speed of the link, as the peer reports it, and the speed and ratio of
// each codec on the bytes sent.
type speed struct {
	begun time.Time // of the last link; guarded by speeds.mu

	mu      sync.Mutex
	perByte float64             // of the link, in nanoseconds; 0: unknown
	heard   time.Time           // when perByte was reported
	cost    [len(rungs)]float64 // of compression, in nanoseconds a byte; 0: unknown
	ratio   [len(rungs)]float64
	last    codec.Setting // last choice
	reason  string        // of last, if it is codec.Raw
	asked   uint          // calls of choose
}

// rungs are the settings that auto chooses from, with typical values on text, used until there are measurements:
// nanoseconds a byte to compress and to decompress, and the compression ratio.
var rungs = [...]struct {
	setting        codec.Setting
	compress, open float64
	ratio          float64
}{
	{codec.Setting{Codec: codec.S2}, 1.2, 0.6, 2.5},
	{codec.Setting{Codec: codec.Zstd, Level: 1}, 2.5, 1, 5},
	{codec.Setting{Codec: codec.Zstd, Level: 3}, 4, 1, 5.8},
	{codec.Setting{Codec: codec.Zstd, Level: 6}, 9, 1, 7},
}

// unknownLink is the index in rungs of the choice until the link has been measured.
const unknownLink = 2

// chooseTurn is the number of pieces between two choices.
const chooseTurn = 32

// told records the speed that the peer reports, in picoseconds a byte.
func (s *speed) told(ps uint32) {
	s.mu.Lock()
	s.perByte, s.heard = max(float64(ps), 1)/psPerNs, time.Now()
	s.mu.Unlock()
}

// compressed records that a piece of raw bytes became sent bytes within took.
func (s *speed) compressed(setting codec.Setting, raw, sent int, took time.Duration) {
	if raw < sampleBytes {
		return
	}
	for i := range rungs {
		if rungs[i].setting != setting {
			continue
		}
		s.mu.Lock()
		average(&s.cost[i], float64(took)/float64(raw))
		average(&s.ratio[i], float64(raw)/float64(sent))
		s.mu.Unlock()
	}
}

func average(v *float64, sample float64) {
	if *v == 0 {
		*v = sample
	}
	*v += newest * (sample - *v)
}

// choose returns the setting with the least sum of the times for compressing, sending and decompressing a byte. If that
// is codec.Raw it returns a reason.
func (s *speed) choose() (codec.Setting, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.asked%chooseTurn != 1 {
		return s.last, s.reason
	}
	s.last, s.reason = rungs[unknownLink].setting, ""
	if s.perByte == 0 {
		return s.last, s.reason
	}
	s.last, s.reason = codec.Setting{}, "link_fast"
	least := s.perByte
	slow, gain := s.scale()
	for i, r := range rungs {
		cost, ratio := s.cost[i]+r.open*slow, s.ratio[i]
		if s.cost[i] == 0 {
			cost = (r.compress + r.open) * slow
			ratio = 1 + (r.ratio-1)*gain
		}
		if t := cost + s.perByte/ratio; t < least {
			least, s.last, s.reason = t, r.setting, ""
		}
	}
	return s.last, s.reason
}

// scale returns how much slower this machine is than the typical values, and how much better the data compresses, for
// settings without measurements.
func (s *speed) scale() (slow, gain float64) {
	n := 0.0
	for i, r := range rungs {
		if s.cost[i] > 0 {
			slow += s.cost[i] / r.compress
			gain += max(s.ratio[i]-1, 0) / (r.ratio - 1)
			n++
		}
	}
	if n == 0 {
		return 1, 1
	}
	return slow / n, gain / n
}

// speeds keeps a speed for each peer, by its host.
type speeds struct {
	mu  sync.Mutex
	all map[string]*speed
}

// maxPeers limits the number of peers that are remembered: those with the latest links, since addresses change.
const maxPeers = 256

// to returns the measurements for the peer of a connection.
func (p *speeds) to(c net.Conn) *speed {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		host = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]*speed{}
	}
	s := p.all[host]
	if s == nil {
		p.makeRoom()
		s = &speed{}
		p.all[host] = s
	}
	s.begun = time.Now()
	return s
}

// makeRoom drops the peer with the oldest latest link if there are maxPeers. Its links keep their measurements.
func (p *speeds) makeRoom() {
	if len(p.all) < maxPeers {
		return
	}
	oldest := ""
	for host, s := range p.all {
		if o := p.all[oldest]; o == nil || s.begun.Before(o.begun) {
			oldest = host
		}
	}
	delete(p.all, oldest)
}

// speedShown is the time after the last measurement for which a link's speed is in the metrics.
const speedShown = time.Hour

// slowest returns the speed of the slowest link in bytes a second; 0 if none was measured.
func (p *speeds) slowest() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	worst := 0.0
	for _, s := range p.all {
		s.mu.Lock()
		if time.Since(s.heard) < speedShown {
			worst = max(worst, s.perByte)
		}
		s.mu.Unlock()
	}
	if worst == 0 {
		return 0
	}
	return 1e9 / worst
}
