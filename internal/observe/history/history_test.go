package history

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

var (
	start  = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	engine = codec.New(codec.Options{MaxInFlight: 1})
)

func open(t *testing.T, dir string, maxBytes int64) *History {
	t.Helper()
	return Open(Options{Path: dir, MaxBytes: maxBytes, Engine: engine, Log: slog.New(slog.NewTextHandler(&testLog{t}, nil))})
}

type testLog struct{ t *testing.T }

func (l *testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func counter(name, gateway, rule string, v int64) Sample {
	return Sample{Series{name, gateway, rule}, Counter, v}
}

func ask(t *testing.T, h *History, from, to time.Time, step time.Duration) *Answer {
	t.Helper()
	a, err := h.Query(context.Background(), Question{From: from, To: to, Step: step})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func line(t *testing.T, a *Answer, name string) *Line {
	t.Helper()
	for _, l := range a.Lines {
		if l.Name == name {
			return &l
		}
	}
	t.Fatalf("no %s among %d series", name, len(a.Lines))
	return nil
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// feed adds n samples of a counter that grows by 10 per sample, starting with the first, and of a gauge.
func feed(h *History, at time.Time, n int) time.Time {
	for i := range n {
		h.Add(at, []Sample{counter("bytes", "g", "r", int64(10*i)), {Series{Name: "memory"}, Gauge, int64(i % 7)}})
		at = at.Add(Interval)
	}
	return at
}

// After a day and a half the older half day exists only as coarse points, and nothing is counted twice.
func TestTwoResolutions(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		h := open(t, dir, 0)
		h.unsynced = true
		const n = 13000
		end := feed(h, start, n)
		a := ask(t, h, start, end, time.Hour)
		l := line(t, a, "bytes")
		near(t, "all of it", l.Sum(), 10*(n-1))
		for i, v := range l.Values[1:35] {
			near(t, fmt.Sprint("hour ", i+1), v, 3600)
		}
		near(t, "an hour of a week ago", ask(t, h, start.Add(-200*time.Hour), start.Add(-199*time.Hour), 0).Lines0(), 0)
		if m := line(t, a, "memory"); m.Values[3] != 6 || m.Kind != Gauge {
			t.Errorf("%v", m)
		}
		if points := h.fine.points(); points < finePoints || points > finePoints+h.fine.perSegment {
			t.Errorf("%d fine points", points)
		}
		h.Close()
		if dir == "" {
			continue
		}
		again := open(t, dir, 0)
		near(t, "after a restart", line(t, ask(t, again, start, end, time.Hour), "bytes").Sum(), 10*(n-1))
	}
}

// Lines0 returns the sum of everything.
func (a *Answer) Lines0() (sum float64) {
	for i := range a.Lines {
		sum += a.Lines[i].Sum()
	}
	return sum
}

func (r *ring) points() (n int) {
	for _, s := range r.segments {
		n += s.points
	}
	return n
}

// A process is followed by one that counts from 0 and soon exceeds it: every byte of both is counted.
func TestRestarts(t *testing.T) {
	dir, at, want := t.TempDir(), start, 0.0
	for i := range 40 {
		h := open(t, dir, 0)
		n := 3 + i
		at = feed(h, at, n)
		want += float64(10 * (n - 1))
		if i%2 == 0 {
			h.Close()
		} // otherwise it crashes: nothing is closed
		if i%2 == 1 {
			release(h)
		}
		near(t, fmt.Sprint("after run ", i), line(t, ask(t, h, start, at.Add(time.Hour), time.Minute), "bytes").Sum(), want)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if len(files) > 12 {
		t.Errorf("small files are not merged: %d", len(files))
	}
}

// release does what the kernel does when a process is killed.
func release(h *History) {
	for _, r := range h.rings() {
		if r.active != nil && r.active.handle != nil {
			_ = r.active.handle.Close()
		}
	}
}

// A process that fails again and again leaves few files, although the definitions of series are larger than
// the points, and displaces nothing of the 90 days.
func TestCrashLoop(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 0)
	h.unsynced = true
	at := feed(h, start, 2*coarse+1)
	h.Close()
	was, long := h.coarse.points(), strings.Repeat("n", maxText-4)
	const runs = 40
	for i := range runs {
		h := open(t, dir, 0)
		h.unsynced = true
		for n := range firstCoarse - 1 {
			many := make([]Sample, 0, 400)
			for k := range cap(many) {
				many = append(many, counter(fmt.Sprint(long, k), long, long, int64(i*k*n)))
			}
			h.Add(at, many)
			at = at.Add(Interval)
		}
		release(h)
	}
	h = open(t, dir, 0)
	if got := h.coarse.points(); got != was {
		t.Errorf("%d coarse points, %d before", got, was)
	}
	if files := mustGlob(t, dir, "*"+suffix); len(files) > 6 {
		t.Errorf("%d files", len(files))
	}
	c := &collector{
		question: Question{From: start, To: at}, from: start.UnixMilli(), to: at.UnixMilli(), step: at.Sub(start).Milliseconds(), n: 1,
		covered: make([]bool, 1), lines: map[Series]*Line{}, writers: map[writerID]*progress{}, fine: map[writerID]uint64{}, left: map[writerID]int{},
	}
	if err := c.read(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	asked := 0
	if _, err := h.Query(t.Context(), Question{From: start, To: at, Want: func(Series) bool { asked++; return false }}); err != nil || asked != 402 {
		t.Errorf("%v, asked about series %d times", err, asked)
	}
	for _, p := range c.writers {
		if len(p.slots) > 0 {
			t.Fatal("what was of a process is remembered after its last point")
		}
	}
	if len(c.writers) != runs+1 || len(c.lines) != 402 {
		t.Errorf("%d processes, %d series", len(c.writers), len(c.lines))
	}
}

// If a process has ended properly, nothing is lost when its fine points are dropped.
func TestLastMinutes(t *testing.T) {
	for _, n := range []int{firstCoarse, firstCoarse + 1, coarse + firstCoarse - 1, coarse + firstCoarse, 100} {
		dir := t.TempDir()
		h := open(t, dir, 0)
		at := feed(h, start, n)
		h.Close()
		for _, file := range mustGlob(t, dir, h.fine.name+"*") {
			os.Remove(file)
		}
		l := line(t, ask(t, open(t, dir, 0), start, at, 0), "bytes")
		near(t, fmt.Sprint(n, " samples"), l.Sum(), float64(10*(n-1)))
	}
}

// During a replacement two processes write, each its own files, and both read everything.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	old := open(t, dir, 0)
	at := feed(old, start, 5) // 40 counted
	young := open(t, dir, 0)
	for i := range int64(100) {
		old.Add(at, []Sample{counter("bytes", "g", "r", 40+i)}) // 1 per sample after the first
		young.Add(at.Add(time.Second), []Sample{counter("bytes", "g", "r", 7*i)})
		at = at.Add(Interval)
	}
	want := 40.0 + 99 + 7*99
	for name, h := range map[string]*History{"old": old, "young": young} {
		near(t, name, line(t, ask(t, h, start, at.Add(time.Minute), time.Minute), "bytes").Sum(), want)
	}
	old.Close()
	near(t, "when the old one has ended", line(t, ask(t, young, start, at.Add(time.Minute), time.Minute), "bytes").Sum(), want)
	young.Close()
	near(t, "later", line(t, ask(t, open(t, dir, 0), start, at.Add(time.Minute), time.Minute), "bytes").Sum(), want)
}

// The clock is set forward by a year, back, and to 1970: nothing is lost or counted twice.
func TestClockJumps(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 0)
	at := start
	for i := range int64(400) {
		now := at
		switch {
		case i >= 100 && i < 150:
			now = at.AddDate(1, 0, 0)
		case i >= 200 && i < 210:
			now = time.Unix(60, 0)
		case i >= 300:
			now = at.Add(-20 * time.Minute)
		}
		h.Add(now, []Sample{counter("bytes", "g", "r", 10*i)})
		at = at.Add(Interval)
	}
	for range 2 {
		all := line(t, ask(t, h, time.Unix(-3600, 0), start.AddDate(2, 0, 0), 0), "bytes").Sum()
		near(t, "everywhere", all, 3990)
		near(t, "in its place", line(t, ask(t, h, start, start.Add(2*time.Hour), time.Minute), "bytes").Sum(), 3990-500-100)
		h.Close()
		h = open(t, dir, 0)
	}
}

// A series that begins later was 0 before; one whose beginning was dropped is counted from what is left.
func TestSeriesThatBeginLater(t *testing.T) {
	h := open(t, "", 0)
	at := start
	for i := range int64(10) {
		s := []Sample{counter("a", "", "", 5)}
		if i >= 4 {
			s = append(s, counter("b", "g", "late", 100+i))
		}
		h.Add(at, s)
		at = at.Add(Interval)
	}
	a := ask(t, h, start.Add(-time.Minute), at, 0)
	near(t, "counted before the first sample", line(t, a, "a").Sum(), 5)
	near(t, "begun later", line(t, a, "b").Sum(), 109)

	h = Open(Options{MaxBytes: MinMaxBytes, Engine: engine})
	h.fine.maxPoints, h.coarse.maxPoints = 100, 10
	at = feed(h, start, 20000)
	l := line(t, ask(t, h, start, at, 0), "bytes")
	if held := float64(10 * (h.coarse.points()*coarse + 30)); l.Sum() > held || l.Sum() < 1000 {
		t.Errorf("%v counted of what is left, at most %v", l.Sum(), held)
	}
}

// The limit holds with more series than allowed, all changing, on disk and in memory.
func TestBound(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		h := open(t, dir, MinMaxBytes)
		h.unsynced = true
		random := uint64(1)
		for i := range 4000 {
			s := make([]Sample, 0, 300)
			for k := range 300 {
				random = random*6364136223846793005 + 1442695040888963407
				s = append(s, counter("bytes", "g", fmt.Sprint(k), int64(i)<<20+int64(random>>44)))
			}
			h.Add(start.Add(time.Duration(i)*Interval), s)
			if used := onDisk(t, dir); used > MinMaxBytes*5/4 || h.State().Bytes > MinMaxBytes*5/4 {
				t.Fatalf("%d bytes after %d samples, %d on the disk", h.State().Bytes, i, used)
			}
		}
		if h.State().Bytes < MinMaxBytes/2 {
			t.Errorf("only %d bytes are held", h.State().Bytes)
		}
	}
	h := open(t, "", MinMaxBytes)
	h.index = firstCoarse - 1
	s, random := make([]Sample, 100), uint64(1)
	for i := range 3000 { // coarse points use the space that fine ones leave
		for k := range s {
			random = random*6364136223846793005 + 1442695040888963407
			s[k] = counter("bytes", "g", fmt.Sprint(k), int64(i)<<20+int64(random>>44))
		}
		h.Add(start.Add(time.Duration(i)*coarse*Interval), s)
		h.index += coarse - 1
		h.fine.maxPoints = 10
	}
	if h.coarse.bytes() < MinMaxBytes*5/8 || h.State().Bytes > MinMaxBytes*9/8 {
		t.Errorf("%d bytes, %d of them of coarse points", h.State().Bytes, h.coarse.bytes())
	}

	h = open(t, "", 0)
	var many []Sample
	for i := range 2 * maxSeries {
		many = append(many, counter("bytes", "g", fmt.Sprint(i), 1))
	}
	h.Add(start, many)
	if a := ask(t, h, start.Add(-time.Hour), start.Add(time.Hour), 0); len(a.Lines) != maxSeries {
		t.Errorf("%d series", len(a.Lines))
	}
}

func onDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	if dir == "" {
		return 0
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// A file truncated anywhere gives all points before that, and the next start continues after it.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 0)
	const samples = 8
	feed(h, start, samples)
	release(h)
	file := h.fine.path(1)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(h.coarse.path(1))
	best := 0.0
	for n := startBytes; n <= len(whole); n++ {
		for _, f := range mustGlob(t, dir, "*") {
			os.Remove(f)
		}
		for _, tail := range []string{"", "\x09\x00\x00\x00garbage that is no frame"} {
			if err := os.WriteFile(file, append(bytes.Clone(whole[:n]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			h := open(t, dir, 0)
			got := ask(t, h, start.Add(-time.Hour), start.Add(time.Hour), 0).Lines0()
			if got < best {
				t.Fatalf("%d bytes: %v, less than with fewer", n, got)
			}
			best = max(best, got)
			if left := mustGlob(t, dir, "*"+asideSuffix); len(left) > 0 {
				t.Fatalf("%d bytes: set aside: %v", n, left)
			}
		}
	}
	near(t, "the whole file", best, 10*(samples-1)+6)
}

func mustGlob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A few unreadable files are set aside, and the rest is there.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 0)
	at := feed(h, start, 100)
	h.Close()
	bad := map[int]string{
		100: "", 101: "short", 102: magic + "\x02\x00newer", 103: magic + "\x01\x07form", 104: magic + "\x01\x01\xff\xff\xff\xffaaaa",
		105: magic + "\x01\x01\x10\x00\x00\x00aaaabbbbbbbb", 106: string(bytes.Repeat([]byte{0}, 100)),
	}
	for n, text := range bad {
		if err := os.WriteFile(h.fine.path(uint64(n)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, dir, 0)
	near(t, "the rest", line(t, ask(t, again, start, at, 0), "bytes").Sum(), 990)
	if n := len(mustGlob(t, dir, "*"+asideSuffix)); n != maxAside {
		t.Errorf("%d files are kept aside", n)
	}
	feed(again, at, 3)
}

// An unusable path does not prevent running.
func TestPathThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := open(t, file, 0)
	at := feed(h, start, 10)
	near(t, "in memory", line(t, ask(t, h, start, at, 0), "bytes").Sum(), 90)
	if h.InMemory() == 0 || h.State().Path != "" {
		t.Error(h.State())
	}

	dir := t.TempDir()
	h = open(t, dir, 0)
	h.unsynced = true
	feed(h, start, 10)
	os.RemoveAll(dir)
	at = feed(h, at, 3000) // its file is removed when it is full
	if h.State().Oldest.IsZero() {
		t.Log("nothing is left, and nothing has failed")
	}
	h.Close()
	var none *History
	none.Add(start, nil)
	none.Close()
	if a := ask(t, none, start, at, 0); len(a.Lines) != 0 || none.InMemory() != 0 {
		t.Error("a history that is not there")
	}
}

func TestQuestionsRefused(t *testing.T) {
	h := open(t, "", 0)
	feed(h, start, 10)
	for name, q := range map[string]Question{
		"backwards": {From: start, To: start.Add(-1)}, "empty": {From: start, To: start},
		"too fine":         {From: start, To: start.Add(time.Hour), Step: time.Millisecond},
		"since the year 1": {To: start}, "since then, by hours": {To: start, Step: time.Hour}, "since then, in a step": {To: start, Step: math.MaxInt64},
		"until 9999": {From: start, To: start.AddDate(7973, 0, 0)},
		"too many":   {From: start, To: start.Add(MaxSteps*time.Second + 1), Step: time.Second},
	} {
		if _, err := h.Query(context.Background(), q); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
	var many []Sample
	for i := range 300 {
		many = append(many, counter("bytes", "g", fmt.Sprint(i), 1))
	}
	h.Add(start, many)
	if _, err := h.Query(context.Background(), Question{From: start.Add(-time.Hour), To: start.Add(MaxSteps * time.Second), Step: 3 * time.Second}); err == nil {
		t.Error("a large answer is given")
	}
	all, err := h.Query(context.Background(), Question{From: start.AddDate(-150, 0, 0), To: start.AddDate(0, 0, 1), Step: math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "150 years in a step", all.Lines0(), 90+6+300)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Query(ctx, Question{From: start, To: start.Add(time.Hour)}); err == nil {
		t.Error("a canceled query is answered")
	}
}

// The queries of a dashboard, every few seconds, and of a report, on a full history: 90 days of 200 series.
func BenchmarkQuery(b *testing.B) {
	h := Open(Options{Path: b.TempDir(), Engine: engine})
	h.unsynced = true
	h.index = firstCoarse - 1
	at, random := start, uint64(1)
	s := make([]Sample, 200)
	for range coarsePoints {
		for k := range s {
			random = random*6364136223846793005 + 1442695040888963407
			s[k] = counter("bytes", "g", fmt.Sprint(k), s[k].Value+int64(random>>50))
		}
		h.Add(at, s)
		h.index += coarse - 1 // so that each point is coarse
		at = at.Add(coarse * Interval)
	}
	b.Logf("%d bytes, %d and %d points", h.State().Bytes, h.coarse.points(), h.fine.points())
	for name, q := range map[string]Question{
		"hour":     {From: at.Add(-time.Hour), To: at, Step: time.Minute},
		"90 days":  {From: start, To: at, Step: 24 * time.Hour},
		"6 series": {From: start, To: at, Step: 24 * time.Hour, Want: func(s Series) bool { return len(s.Rule) == 1 }},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := h.Query(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A starting process removes half-written files of a killed one, but not the file that the process it
// replaces is writing.
func TestHalfWritten(t *testing.T) {
	dir := t.TempDir()
	young, old := filepath.Join(dir, "10s-00000002"+suffix+".tmp"), filepath.Join(dir, "10s-00000001"+suffix+".tmp")
	for _, name := range []string{young, old} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * leftAfter)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	if err := prepare(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("what is being written was removed:", err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what was left stays")
	}
}
