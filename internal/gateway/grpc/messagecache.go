package grpc

import (
	"context"
	"crypto/sha256"
	"hash/maphash"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// Limits of a cache: the time and the bytes for which it keeps compressed messages, and the smallest message
// that it looks up. Smaller ones cost less to compress than to look up.
const (
	cacheTime      = 5 * time.Second
	cacheBytes     = 32 << 20
	minCachedBytes = 4 << 10
)

// If fewer than one in rareHits lookups of a round finds something, only one message in sparse is looked up
// until that changes, as a hash costs as much as fast compression. The selection depends on a message's
// content, so that copies of a message are treated alike.
const (
	roundLookups = 512
	rareHits     = 32
	sparse       = 16
)

// Cache compresses messages. A message that is sent to several upstreams within seconds, such as a write to
// replicas, is compressed only once: copies that come meanwhile wait for it. It is shared by the gateways of
// a process.
type Cache struct {
	codecs *grpccodec.Set
	seed   maphash.Seed

	mu            sync.Mutex
	entries       map[cacheKey]*cacheEntry
	order         []*cacheEntry // by age, the oldest first
	bytes         int
	sweeping      bool
	sampling      bool // look up only one message in sparse
	lookups, hits int  // in the current round
	totals        cacheTotals
}

type cacheTotals struct{ hits, joined, misses, skipped uint64 }

// cacheKey identifies a message by a cryptographic hash of its content: a collision would deliver wrong data.
type cacheKey struct {
	sum     [sha256.Size]byte
	setting codec.Setting
}

type cacheEntry struct {
	key  cacheKey
	at   time.Time
	done chan struct{} // closed when out or err is set
	out  []byte        // immutable, and not pooled
	err  error
	size int // of out; guarded by Cache.mu, 0 until done
}

// NewCache returns a cache that compresses with codecs.
func NewCache(codecs *grpccodec.Set) *Cache {
	return &Cache{codecs: codecs, seed: maphash.MakeSeed(), entries: map[cacheKey]*cacheEntry{}}
}

// packed is a compressed message. done must be called when it is no longer used.
type packed struct {
	bytes  []byte
	pooled bool
	sealed bool // compressed in a lane: the reader of the lane must get it
	headed bool // head goes before bytes
	head   byte
}

func (p packed) done() {
	if p.pooled {
		memory.PutBuffer(p.bytes)
	}
}

// compress returns raw compressed with a setting.
func (c *Cache) compress(ctx context.Context, raw []byte, s codec.Setting) (packed, error) {
	if !c.shouldLookUp(raw) {
		return c.compressUncached(raw, s)
	}
	key := cacheKey{sha256.Sum256(raw), s}
	e, found := c.lookup(key)
	if !found {
		return c.fill(e, raw)
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return packed{}, ctx.Err()
	}
	if e.err != nil {
		return c.compressUncached(raw, s)
	}
	return packed{bytes: e.out}, nil
}

// compressUncached compresses a message without the cache.
func (c *Cache) compressUncached(raw []byte, s codec.Setting) (packed, error) {
	buf := memory.GetBuffer(min(codec.MaxEncodedLen(s.Codec, len(raw))+64, 2*len(raw)+64))
	out, err := c.codecs.AppendSetting(buf, raw, s)
	return packed{bytes: out, pooled: true}, err
}

// fill compresses a message for an entry that other calls may already wait for.
func (c *Cache) fill(e *cacheEntry, raw []byte) (packed, error) {
	e.err = gateway.ErrPanicked // unless compressing returns
	defer c.filled(e)
	p, err := c.compressUncached(raw, e.key.setting)
	if err == nil {
		e.out = append([]byte(nil), p.bytes...) // a copy of the exact length
	}
	e.err = err
	return p, err
}

// filled accounts for an entry that was filled, and wakes the calls that wait for it.
func (c *Cache) filled(e *cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.size = len(e.out)
	c.bytes += e.size
	close(e.done)
	c.trim(time.Now())
}

// shouldLookUp reports whether to look up a message.
func (c *Cache) shouldLookUp(raw []byte) bool {
	if len(raw) < minCachedBytes {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sampling || c.sampleHash(raw)%sparse == 0 {
		return true
	}
	c.totals.skipped++
	return false
}

// sampleHash hashes three pieces of a message, which must be at least as long as one piece.
func (c *Cache) sampleHash(raw []byte) uint64 {
	const piece = 64
	h := uint64(len(raw))
	for _, at := range [...]int{0, len(raw) / 2, len(raw) - piece} {
		h = h*31 + maphash.Bytes(c.seed, raw[at:at+piece])
	}
	return h >> 7
}

// lookup returns the entry of a key, and whether it was found. If not, the caller must fill the new entry.
func (c *Cache) lookup(key cacheKey) (e *cacheEntry, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, found = c.entries[key]
	if found && time.Since(e.at) > cacheTime && e.isDone() {
		c.trim(time.Now())
		e, found = c.entries[key]
	}
	c.count(e, found)
	if found {
		return e, true
	}
	e = &cacheEntry{key: key, at: time.Now(), done: make(chan struct{})}
	c.entries[key] = e
	c.order = append(c.order, e)
	c.startSweep()
	return e, false
}

// isDone reports whether the message has been compressed.
func (e *cacheEntry) isDone() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// count updates the totals, and decides about the next round. c.mu must be held.
func (c *Cache) count(e *cacheEntry, found bool) {
	c.lookups++
	switch {
	case !found:
		c.totals.misses++
	case e.isDone():
		c.totals.hits++
		c.hits++
	default:
		c.totals.joined++
		c.hits++
	}
	if c.lookups >= roundLookups {
		c.sampling = c.hits*rareHits < c.lookups
		c.lookups, c.hits = 0, 0
	}
}

// trim removes the oldest entries while they are too old or the cache is too large. An entry that is being filled
// stays, and so do all younger ones until it is filled. At most as many entries are being filled as there are running
// calls. c.mu must be held.
func (c *Cache) trim(now time.Time) {
	for len(c.order) > 0 {
		e := c.order[0]
		if !e.isDone() || c.bytes <= cacheBytes && now.Sub(e.at) <= cacheTime {
			return
		}
		delete(c.entries, e.key)
		c.bytes -= e.size
		c.order[0] = nil
		c.order = c.order[1:]
	}
}

// startSweep makes sure that memory is freed when no more messages come. c.mu must be held.
func (c *Cache) startSweep() {
	if c.sweeping {
		return
	}
	c.sweeping = true
	time.AfterFunc(cacheTime, c.sweep)
}

// sweep trims the cache, and schedules the next sweep unless the cache is empty.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweeping = false
	c.trim(time.Now())
	if len(c.order) > 0 {
		c.startSweep()
	}
}

var (
	cacheLookups = prometheus.NewDesc("cinch_grpc_cache_lookups_total",
		"Lookups in the cache of compressed messages, by outcome.", []string{"outcome"}, nil)
	cacheHeld = prometheus.NewDesc("cinch_grpc_cache_bytes",
		"Size of the cache of compressed messages, in bytes.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Cache) Describe(to chan<- *prometheus.Desc) {
	to <- cacheLookups
	to <- cacheHeld
}

// Collect implements prometheus.Collector.
func (c *Cache) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	t, held := c.totals, c.bytes
	c.mu.Unlock()
	counter := func(outcome string, n uint64) {
		to <- prometheus.MustNewConstMetric(cacheLookups, prometheus.CounterValue, float64(n), outcome)
	}
	counter("hit", t.hits)
	counter("joined", t.joined)
	counter("miss", t.misses)
	counter("skipped", t.skipped)
	to <- prometheus.MustNewConstMetric(cacheHeld, prometheus.GaugeValue, float64(held))
}
