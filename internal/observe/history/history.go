package history

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

const (
	// Interval is the time between samples.
	Interval = 10 * time.Second

	// coarse is the number of samples per coarse point: 5 min. The first is taken after a minute, so that a
	// process that fails soon after each start doesn't displace the points of 90 days.
	coarse      = 30
	firstCoarse = 6

	finePoints   = int(24 * time.Hour / Interval)
	coarsePoints = int(90 * 24 * time.Hour / (coarse * Interval))

	// syncEvery is the maximum number of samples that a power failure may lose.
	syncEvery = 6

	// DefaultMaxBytes limits the files, MaxMemoryBytes what is held in memory without them. Fine points get
	// at most half.
	DefaultMaxBytes = 64 << 20
	MaxMemoryBytes  = 8 << 20
	// MinMaxBytes is the smallest useful limit.
	MinMaxBytes = 1 << 20
)

// Options configures a history.
type Options struct {
	Path     string // directory of its files, created if missing; "": in memory
	MaxBytes int64  // 0: DefaultMaxBytes; in memory it is at most MaxMemoryBytes
	Engine   *codec.Engine
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now; used for the time of the start
}

// History records the counters of a process over time. It is safe for concurrent use. Its exported methods work on a
// nil History.
type History struct {
	path   string // "": in memory
	log    *slog.Logger
	engine *codec.Engine
	writer writerID

	mu     sync.Mutex
	index  uint64
	fine   *ring
	coarse *ring
	failed bool // the last point could not be written
	// maxBytes limits both rings together.
	maxBytes int64
	last     []Sample
	lastTime int64

	unsynced bool // for tests that take a day: don't wait for the disk
}

// Open opens or creates a history. It never fails: if the path can't be used it logs that, and holds the
// history in memory.
func Open(o Options) *History {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Engine == nil {
		o.Engine = codec.New(codec.Options{MaxInFlight: 1})
	}
	if o.Path != "" {
		if err := prepare(o.Path); err != nil {
			o.Log.Warn("history: path can't be used, samples are kept in memory", "err", err)
			o.Path = ""
		}
	}
	if o.Path == "" {
		o.MaxBytes = min(o.MaxBytes, MaxMemoryBytes)
	}
	h := &History{path: o.Path, log: o.Log, engine: o.Engine, maxBytes: o.MaxBytes}
	_, _ = rand.Read(h.writer[:]) // never fails
	h.fine = newRing(o, "10s", 1, finePoints/12, finePoints)
	h.coarse = newRing(o, "5m", coarse, coarsePoints/90, coarsePoints)
	for _, r := range h.rings() {
		r.find(h.log)
		r.tidy(h.log)
	}
	h.apportion()
	h.fine.trim()
	return h
}

// apportion gives coarse points one half of the space, and what fine points leave free of the other half.
func (h *History) apportion() {
	room := h.fine.maxBytes - h.fine.bytes() - h.fine.fullAt()
	h.coarse.maxBytes = h.fine.maxBytes + max(room, 0)
	h.coarse.trim()
}

func newRing(o Options, name string, every uint64, perSegment, maxPoints int) *ring {
	return &ring{
		name: name, every: every, perSegment: perSegment, maxPoints: maxPoints,
		maxBytes: o.MaxBytes / 2, dir: o.Path, engine: o.Engine,
	}
}

func (h *History) rings() []*ring { return []*ring{h.coarse, h.fine} }

// Add records samples at a time. It must be called every Interval, the first time at the start of the
// process, or soon after.
func (h *History) Add(now time.Time, samples []Sample) {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.index++
	err := h.fine.add(h.writer, h.index, now.UnixMilli(), samples)
	h.last, h.lastTime = append(h.last[:0], samples...), now.UnixMilli()
	if h.index%coarse == firstCoarse {
		h.apportion()
		if coarser := h.coarse.add(h.writer, h.index, now.UnixMilli(), samples); err == nil {
			err = coarser
		}
	}
	due, failed := h.index%syncEvery == 0 && !h.unsynced, h.failed
	h.failed = err != nil
	h.mu.Unlock()
	if err != nil && !failed {
		h.log.Warn("history: samples are lost", "err", err)
	}
	if due {
		h.sync()
	}
}

// sync writes what was added to disk. A crash of the machine loses samples added since the last sync.
func (h *History) sync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings() {
		if err := r.sync(); err != nil {
			h.log.Warn("history: samples could not be written to disk yet", "err", err)
		}
	}
}

// Close writes what is left. Nothing may be added after it.
func (h *History) Close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.index > firstCoarse && h.index%coarse != firstCoarse {
		if err := h.coarse.add(h.writer, h.index, h.lastTime, h.last); err != nil {
			h.log.Warn("history: the last minutes are missing from the 5-minute samples", "err", err)
		}
	}
	for _, r := range h.rings() {
		if err := r.finish(); err != nil {
			h.log.Warn("history: the last file is not compressed", "err", err)
		}
	}
}

// State describes what a history holds.
type State struct {
	Path   string    `json:"path,omitempty"` // empty: in memory
	Bytes  int64     `json:"bytes"`
	Oldest time.Time `json:"oldest"` // time of the first point, zero without one
}

// State returns what is held.
func (h *History) State() (st State) {
	if h == nil {
		return st
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	st.Path = h.path
	oldest := int64(0)
	for _, r := range h.rings() {
		for _, s := range r.segments {
			st.Bytes += s.size
			if s.points > 0 && (oldest == 0 || s.oldest < oldest) {
				oldest = s.oldest
			}
		}
	}
	if oldest != 0 {
		st.Oldest = time.UnixMilli(oldest).UTC()
	}
	return st
}

// InMemory returns how many bytes are held in memory.
func (h *History) InMemory() int64 {
	if st := h.State(); h != nil && st.Path == "" {
		return st.Bytes
	}
	return 0
}
