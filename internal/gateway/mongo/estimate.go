package mongo

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// linkSpeed holds the measured speeds of the link to the server and of the codecs, for rules that leave the choice
// to the gateway: a message is compressed if it then arrives sooner.
//
//	plain:       bytes * link
//	compressed:  compressed bytes * link + bytes * codec
//
// All speeds are in nanoseconds a byte, which can be added and averaged, unlike bytes a second. The link's
// speed is the time that large messages took to come in after their first bytes. So it is the link's
// bandwidth, shared with its other users, windows and congestion included.
type linkSpeed struct {
	mu              sync.Mutex
	perByte         float64 // of the link
	samples         int
	rtt             rttWindow
	compressSpeed   [numCompressors]float64 // speeds of codecs; 0: not measured
	decompressSpeed [numCompressors]float64
	turn            uint // number of choices made; explore tries an alternative now and then
	choices         map[choice]uint64
}

// choice is the key of the counters for metrics.
type choice struct{ compressor, reason string }

const (
	// Shorter messages are not used to measure the link and the codecs.
	minSampleBytes = 4 << 10
	linkWeight     = 0.1 // weight of a new sample in averages
	minSamples     = 8   // samples; with fewer a link counts as scarce
	exploreEvery   = 64  // one in this many large replies comes plain, to measure the link
	// codecFactor accounts for costs of compressing beside the codec's time: cold caches, copies, the
	// server's overhead. Measured with a real server (docs/MONGODB.md).
	codecFactor = 2
)

// typicalSpeed holds the assumed speeds of codecs that have not been measured, on documents, in nanoseconds a
// byte: to compress and to decompress.
var typicalSpeed = [numCompressors][2]float64{
	wire.Snappy: {1.4, 0.7},
	wire.Zlib:   {30, 4},
	wire.Zstd:   {3.8, 1.8},
}

// observeReply records how fast a reply of the given size came in: its last rest bytes took the time took after the
// first ones. roundTrip is the time from the request to the first bytes; 0: not measured.
func (l *linkSpeed) observeReply(bytes, rest int, took, roundTrip time.Duration) {
	if bytes < minSampleBytes && roundTrip <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if roundTrip > 0 {
		l.rtt.add(roundTrip, time.Now())
	}
	if bytes < minSampleBytes {
		return
	}
	sample := 0.0 // all bytes came at once
	if rest > 0 {
		sample = float64(took) / float64(rest)
	}
	if l.samples++; l.samples == 1 {
		l.perByte = sample
	}
	l.perByte += linkWeight * (sample - l.perByte)
}

// measure records the speed of a codec in speeds, which is l.compressSpeed or l.decompressSpeed. It ignores small
// messages, which would measure the overhead of the call.
func (l *linkSpeed) measure(speeds *[numCompressors]float64, id wire.CompressorID, bytes int, took time.Duration) {
	if int(id) >= numCompressors || bytes < minSampleBytes {
		return
	}
	sample := float64(took) / float64(bytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	updateAverage(&speeds[id], sample, linkWeight)
}

// fastest returns the compressor with which a request and its expected reply arrive soonest. If they arrive sooner
// without one, it returns plain and a reason. Until the link has been measured, its bandwidth counts as scarce.
func (l *linkSpeed) fastest(est *estimate, accepted compressorSet) (id wire.CompressorID, level int, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	id, reason = l.best(est, accepted)
	if id != plain && l.samples >= minSamples {
		id, reason = l.explore(est, accepted, id, reason)
	}
	l.count(id, reason)
	if id == plain {
		return plain, 0, reason
	}
	return id, 0, ""
}

// explore replaces the choice now and then: by plain, to measure the link, or by the other compressor, to
// measure its ratio for such messages.
func (l *linkSpeed) explore(est *estimate, accepted compressorSet, id wire.CompressorID, reason string) (wire.CompressorID, string) {
	other := wire.Snappy + wire.Zstd - id
	switch {
	case l.turn%exploreEvery == 0 && est.expected.bytes >= minSampleBytes:
		return plain, "explore"
	case l.turn%exploreEvery == exploreEvery/2 && accepted.has(other):
		return other, "explore"
	}
	return id, reason
}

func (l *linkSpeed) best(est *estimate, accepted compressorSet) (wire.CompressorID, string) {
	best, least, reason := plain, 0.0, "link_fast"
	if l.savesNothing(est) {
		return plain, "small"
	}
	for _, id := range autoCompressors {
		if !accepted.has(id) {
			continue
		}
		if l.samples < minSamples {
			best, reason = id, "link_unknown"
			continue
		}
		if gain := l.gain(est, id); gain > least {
			best, least, reason = id, gain, "link_scarce"
		}
	}
	return best, reason
}

// autoCompressors are the compressors to choose from.
var autoCompressors = []wire.CompressorID{wire.Snappy, wire.Zstd}

// savesNothing reports whether no codec would make the messages smaller.
func (l *linkSpeed) savesNothing(est *estimate) bool {
	for _, id := range autoCompressors {
		if typicalSaving(float64(est.requestBytes), id) > 0 || est.replySaving(id) > 0 {
			return false
		}
	}
	return true
}

// gain returns how many nanoseconds earlier request and reply arrive with a compressor.
func (l *linkSpeed) gain(est *estimate, id wire.CompressorID) float64 {
	slowness := l.slowness()
	compress, open := l.compressSpeed[id], l.decompressSpeed[id]
	if compress == 0 {
		compress = typicalSpeed[id][0] * slowness
	}
	if open == 0 {
		open = typicalSpeed[id][1] * slowness
	}
	saved, bytes := est.replySaving(id), 0.0
	if est.requestRule != nil {
		saved += max(est.expected.requestSaving(est.requestBytes, id), 0)
		bytes += float64(est.requestBytes)
	}
	if est.hasReply {
		bytes += est.expected.bytes
	}
	return saved*l.perByte - bytes*(compress+open)*codecFactor
}

// slowness returns the ratio of measured to typical speeds on this machine, as an estimate for codecs that
// have not been measured.
func (l *linkSpeed) slowness() float64 {
	sum, n := 0.0, 0.0
	for id := range typicalSpeed {
		for i, measured := range []float64{l.compressSpeed[id], l.decompressSpeed[id]} {
			if typical := typicalSpeed[id][i]; measured > 0 && typical > 0 {
				sum, n = sum+measured/typical, n+1
			}
		}
	}
	if n == 0 {
		return 1
	}
	return sum / n
}

// maxChoices limits the choices that are counted.
const maxChoices = 64

func (l *linkSpeed) count(id wire.CompressorID, reason string) {
	if l.choices == nil {
		l.choices = map[choice]uint64{}
	}
	name := "plain"
	if id != plain {
		name = nameOf(id)
	}
	if c := (choice{name, reason}); len(l.choices) < maxChoices {
		l.choices[c]++
	}
}

// rttWindow holds the shortest of the recent round-trip times. It uses two consecutive windows of
// rttWindowTime, so that the next round trip after one to two of them replaces an old minimum.
type rttWindow struct {
	since            time.Time
	current, earlier time.Duration // 0: none
}

const rttWindowTime = 30 * time.Second

func (w *rttWindow) add(d time.Duration, now time.Time) {
	if age := now.Sub(w.since); age > rttWindowTime {
		if age > 2*rttWindowTime {
			w.current = 0
		}
		w.since, w.earlier, w.current = now, w.current, 0
	}
	if d > 0 && (w.current == 0 || d < w.current) {
		w.current = d
	}
}

func (w *rttWindow) min() time.Duration {
	if w.current == 0 || w.earlier != 0 && w.earlier < w.current {
		return w.earlier
	}
	return w.current
}

// estimate is the input for estimating what compressing a request and its reply would save.
type estimate struct {
	requestRule, replyRule *policy.MessageRule // rules that cover them; nil: none
	requestBytes           int                 // of the request
	expected               forecast            // of the reply
	hasReply               bool
}

// mainRule returns the rule of the larger message, because request and reply have the same compressor.
func (est *estimate) mainRule() *policy.MessageRule {
	if est.requestRule == nil || est.replyRule != nil && est.expected.bytes > float64(est.requestBytes) {
		return est.replyRule
	}
	return est.requestRule
}

// replySaving returns the bytes that compressing the reply saves. A reply that no rule covers is compressed
// because its request is: that may cost bytes, but counts no saving.
func (est *estimate) replySaving(id wire.CompressorID) float64 {
	switch saving := est.expected.replySaving(id); {
	case !est.hasReply:
		return 0
	case est.replyRule == nil:
		return min(saving, 0)
	default:
		return saving
	}
}

// minSaving returns the number of bytes that compressing must save.
func (est *estimate) minSaving() float64 {
	total := 0.0
	if est.requestRule != nil {
		total += float64(est.requestBytes)
	}
	if est.replyRule != nil {
		total += est.expected.bytes
	}
	return est.mainRule().MinGain * total
}

// forecasts records the sizes and ratios of replies to requests of each shape, to predict the next one. All
// sessions of a gateway share it.
type forecasts struct {
	mu sync.Mutex
	m  map[uint64]*forecast
}

// maxShapes limits the number of shapes; beyond it arbitrary ones are forgotten.
const maxShapes = 8192

// forecast holds averages for the requests of one shape and their replies.
type forecast struct {
	bytes        float64                 // of a reply, moving average
	replyRatio   [numCompressors]float64 // compressed size divided by plain size, moving average; 0: unknown
	requestRatio [numCompressors]float64 // the same for the requests themselves, if this gateway compresses them
	plainReplies int                     // plain replies since replyRatio was last updated
}

const (
	// replyWeight is the weight of a new reply in the averages.
	replyWeight = 0.25
	// forgetAfter is the number of plain replies after which ratios are forgotten, so that compressing is
	// tried again.
	forgetAfter = 512
	// Assumed size of a reply before the first one has come, in bytes.
	unknownLarge = 4096
	unknownSmall = 60
)

// predict returns the forecast for the next reply.
func (t *forecasts) predict(key uint64, tr traits) forecast {
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

// observe records a reply of raw bytes that was received as compressed bytes, compressed by id.
func (t *forecasts) observe(key uint64, raw, compressed int, id wire.CompressorID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.m[key]
	if s == nil {
		s = t.add(key, raw)
	}
	s.bytes += replyWeight * (float64(raw) - s.bytes)
	if int(id) < numCompressors {
		s.plainReplies = 0
		updateAverage(&s.replyRatio[id], float64(compressed)/float64(raw), replyWeight)
	} else if s.plainReplies++; s.plainReplies >= forgetAfter {
		s.replyRatio, s.plainReplies = [numCompressors]float64{}, 0
	}
}

// observeRequest records the size of a request compressed by id.
func (t *forecasts) observeRequest(key uint64, raw, compressed int, id wire.CompressorID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.m[key]; s != nil {
		updateAverage(&s.requestRatio[id], float64(compressed)/float64(raw), replyWeight)
	}
}

// updateAverage updates the moving average avg, which is 0 before the first sample, with a sample of the given
// weight.
func updateAverage(avg *float64, sample, weight float64) {
	if *avg == 0 {
		*avg = sample
	}
	*avg += weight * (sample - *avg)
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
	evict(t.m, maxShapes)
	s := &forecast{bytes: float64(raw)}
	t.m[key] = s
	return s
}

// replySaving returns how many bytes compressing a reply with id saves; negative: it costs bytes.
func (s *forecast) replySaving(id wire.CompressorID) float64 {
	if r := s.replyRatio[id]; r != 0 {
		return s.bytes * (1 - r)
	}
	return typicalSaving(s.bytes, id)
}

// requestSaving is replySaving for a request of so many bytes.
func (s *forecast) requestSaving(bytes int, id wire.CompressorID) float64 {
	if r := s.requestRatio[id]; r != 0 {
		return float64(bytes) * (1 - r)
	}
	return typicalSaving(float64(bytes), id)
}

// typicalSaving returns the typical saving for documents of some hundred bytes, as measured with a real
// server (docs/MONGODB.md): next to nothing for one document, and most of every further byte.
func typicalSaving(bytes float64, id wire.CompressorID) float64 {
	const overhead = 15
	if id == wire.Snappy {
		return max(bytes-450, 0)*0.58 - overhead
	}
	return max(bytes-350, 0)*0.72 - overhead
}

// evict deletes arbitrary entries until m has fewer than limit.
func evict[K comparable, V any](m map[K]V, limit int) {
	for key := range m {
		if len(m) < limit {
			return
		}
		delete(m, key)
	}
}
