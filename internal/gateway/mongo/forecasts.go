package mongo

import (
	"sync"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// forecasts remember what replies to requests of each shape were like, to say what the next
// one will be. They are shared by all sessions of a gateway.
type forecasts struct {
	mu sync.Mutex
	m  map[uint64]*forecast
}

// maxShapes bounds the memory; beyond it arbitrary ones are forgotten.
const maxShapes = 8192

// forecast is what is known about the replies to requests of one shape.
type forecast struct {
	bytes float64              // of a reply, moving average
	ratio [compressors]float64 // compressed by plain, moving average; 0: not known
	own   [compressors]float64 // the same of the requests themselves, those that are compressed here
	idle  int                  // plain replies since ratio was last confirmed
}

const (
	// newest is the weight of the latest reply in the averages.
	newest = 0.25
	// forgetAfter so many plain replies it is tried again whether they compress.
	forgetAfter = 512
	// What a reply is taken for before the first one has come, in bytes.
	unknownLarge = 4096
	unknownSmall = 60
)

// expect returns what the next reply will be like.
func (t *forecasts) expect(key uint64, tr traits) forecast {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.m[key]; s != nil {
		return *s
	}
	if tr&largeReply != 0 {
		return forecast{bytes: unknownLarge}
	}
	return forecast{bytes: unknownSmall}
}

// learn takes notice of a reply of raw bytes that came in so many bytes, compressed by id.
func (t *forecasts) learn(key uint64, raw, came int, id wire.CompressorID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.m[key]
	if s == nil {
		s = t.add(key, raw)
	}
	s.bytes += newest * (float64(raw) - s.bytes)
	if int(id) >= compressors {
		if s.idle++; s.idle >= forgetAfter {
			s.ratio, s.idle = [compressors]float64{}, 0
		}
		return
	}
	s.idle = 0
	ratio := float64(came) / float64(raw)
	if s.ratio[id] == 0 {
		s.ratio[id] = ratio
	}
	s.ratio[id] += newest * (ratio - s.ratio[id])
}

// learnOwn takes notice of what a compressor made of a request.
func (t *forecasts) learnOwn(key uint64, raw, compressed int, id wire.CompressorID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.m[key]; s != nil {
		ratio := float64(compressed) / float64(raw)
		if s.own[id] == 0 {
			s.own[id] = ratio
		}
		s.own[id] += newest * (ratio - s.own[id])
	}
}

func (t *forecasts) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m)
}

func (t *forecasts) add(key uint64, raw int) *forecast {
	if t.m == nil {
		t.m = map[uint64]*forecast{}
	}
	for other := range t.m {
		if len(t.m) < maxShapes {
			break
		}
		delete(t.m, other)
	}
	s := &forecast{bytes: float64(raw)}
	t.m[key] = s
	return s
}

// saving is how many bytes compressing a reply with id will save, negative at a loss.
func (s *forecast) saving(id wire.CompressorID) float64 {
	if r := s.ratio[id]; r != 0 {
		return s.bytes * (1 - r)
	}
	return typicalSaving(s.bytes, id)
}

// ownSaving is the same for a request of so many bytes.
func (s *forecast) ownSaving(bytes int, id wire.CompressorID) float64 {
	if r := s.own[id]; r != 0 {
		return float64(bytes) * (1 - r)
	}
	return typicalSaving(float64(bytes), id)
}

// typicalSaving is for documents of some hundred bytes, as measured with a real server
// (docs/MONGODB.md): next to nothing for one of them, and then most of every further byte.
func typicalSaving(bytes float64, id wire.CompressorID) float64 {
	const overhead = 15
	if id == wire.BetweenGateways {
		return max(bytes-60, 0) * 0.7
	}
	if id == wire.Snappy {
		return max(bytes-450, 0)*0.58 - overhead
	}
	return max(bytes-350, 0)*0.72 - overhead
}
