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

	// coarse points are every so many samples: 5 min. The first is after a minute, so that a process that fails again and again, soon after
	// its start, doesn't drop what 90 days have left.
	coarse      = 30
	firstCoarse = 6

	finePoints   = int(24 * time.Hour / Interval)
	coarsePoints = int(90 * 24 * time.Hour / (coarse * Interval))

	// syncEvery is how many samples may be lost with the power.
	syncEvery = 6

	// DefaultMaxBytes bounds the files, MaxMemoryBytes what is held in memory without them. Fine points have a half at most.
	DefaultMaxBytes = 64 << 20
	MaxMemoryBytes  = 8 << 20
	// MinMaxBytes is the least bound that makes sense.
	MinMaxBytes = 1 << 20
)

// Options say where a history is kept.
type Options struct {
	Path     string // directory of its files, made if it is missing; "": in memory
	MaxBytes int64  // 0: DefaultMaxBytes; in memory it is at most MaxMemoryBytes
	Engine   *codec.Engine
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now; the time of the start
}

// History is what a process has counted over time. Its methods may be called from any goroutine, on a nil History too.
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
	// maxBytes is the bound of all.
	maxBytes int64
	// last is the last sample.
	last     []Sample
	lastTime int64

	unsynced bool // for tests that take a day: the disk is not waited for
}

// Open finds what there is. It never fails: where the path can't be used it says so in the log, and history is held in memory.
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
			o.Log.Warn("history: its path can't be used, it is held in memory", "err", err)
			o.Path = ""
		}
	}
	if o.Path == "" {
		o.MaxBytes = min(o.MaxBytes, MaxMemoryBytes)
	}
	h := &History{path: o.Path, log: o.Log, engine: o.Engine, maxBytes: o.MaxBytes}
	_, _ = rand.Read(h.writer[:]) // it never fails
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

// apportion gives coarse points the room that fine ones, which have a half, don't take.
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

// Add keeps samples as the values at a time. It is called every Interval; the first time at the start of the process, or soon after.
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
		h.Sync()
	}
}

// Sync has the disk hold what was added. A crash of the machine loses what was added since.
func (h *History) Sync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings() {
		if err := r.sync(); err != nil {
			h.log.Warn("history: not on the disk yet", "err", err)
		}
	}
}

// Close writes what is left. Nothing is added after it.
func (h *History) Close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.index > firstCoarse && h.index%coarse != firstCoarse {
		if err := h.coarse.add(h.writer, h.index, h.lastTime, h.last); err != nil {
			h.log.Warn("history: the last minutes are kept for a day only", "err", err)
		}
	}
	for _, r := range h.rings() {
		if err := r.finish(); err != nil {
			h.log.Warn("history: the last file is not compressed", "err", err)
		}
	}
}

// State is what a history holds.
type State struct {
	Path   string    `json:"path,omitempty"` // missing: in memory
	Bytes  int64     `json:"bytes"`
	Oldest time.Time `json:"oldest"` // the first point, zero without one
}

// State says what is held.
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

// InMemory is how many bytes are held in memory.
func (h *History) InMemory() int64 {
	if st := h.State(); h != nil && st.Path == "" {
		return st.Bytes
	}
	return 0
}
