package soak

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// turns counts failovers: it is odd while one goes on. What was acknowledged before the latest
// one may be lost, as replication is asynchronous; what is there is right nevertheless.
type turns struct {
	n    atomic.Int64
	ours atomic.Int64 // failovers that were asked for, and are over
}

func (t *turns) begin()      { t.n.Add(1) }
func (t *turns) end()        { t.n.Add(1); t.ours.Add(1) }
func (t *turns) switched()   { t.n.Add(2) }
func (t *turns) now() int64  { return t.n.Load() }
func (t *turns) quiet() bool { return t.now()%2 == 0 }

// trouble is what clients were told while no failover of ours went on. On a machine that is too
// busy for its Sentinels they hand the primary on by themselves: that explains what happens around it.
type trouble struct {
	mu       sync.Mutex
	failures []failure
	switches []time.Time
}

type failure struct {
	at   time.Time
	text string
}

// near is how far from a failover clients may still be told of it: as long as Sentinels leave an
// old primary alone.
const near = 30 * time.Second

func (l *trouble) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, failure{time.Now(), fmt.Sprintf(format, args...)})
}

func (l *trouble) switched() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.switches = append(l.switches, time.Now())
}

// unexplained are failures with no failover near.
func (l *trouble) unexplained() (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures {
		if !slices.ContainsFunc(l.switches, func(at time.Time) bool { return f.at.Sub(at).Abs() < near }) {
			texts = append(texts, f.at.Format(time.TimeOnly)+" "+f.text)
		}
	}
	return texts
}

// text is version n of the value of a key: who reads it can tell that it is whole. It has about
// size bytes.
func text(key string, n, size int) string {
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(key))))
	var b strings.Builder
	fmt.Fprintf(&b, `{"key":%q,"n":%d,"size":%d,"orders":[`, key, n, size)
	for b.Len() < size-2 {
		fmt.Fprintf(&b, `{"id":%d,"state":"shipped","total":%d.%02d,"warehouse":"lisbon-2"},`, r.IntN(1e6), r.IntN(900), r.IntN(100))
	}
	b.WriteString("]}")
	return b.String()
}

// versionOf returns which version of the key's value s is; ok is false when it is none.
func versionOf(key, s string) (n int, ok bool) {
	var size int
	if _, err := fmt.Sscanf(s, fmt.Sprintf(`{"key":%q,"n":%%d,"size":%%d,`, key), &n, &size); err != nil {
		return 0, false
	}
	return n, s == text(key, n, size)
}

// cell is what one worker knows of a key that only it writes.
type cell struct {
	key         string
	least, most int   // versions that it may have; 0: missing
	turn        int64 // when least was acknowledged
}

// wrote takes notice of an attempt to write version n that began in a turn.
func (c *cell) wrote(n int, turn int64, t *turns, err error) {
	c.most = max(c.most, n)
	if err == nil && t.quiet() && t.now() == turn {
		c.least, c.turn = n, turn
	}
}

// read checks a value; missing is "".
func (c *cell) read(test *testing.T, s string, turn int64, t *turns) {
	n, ok := 0, s == ""
	if !ok {
		n, ok = versionOf(c.key, s)
	}
	least := c.least
	if turn != c.turn || !t.quiet() || t.now() != turn {
		least = 0
	}
	if !ok || n < least || n > c.most {
		test.Errorf("%s: version %d (whole: %v) of %d to %d: %.100q", c.key, n, ok, least, c.most, s)
	}
	if ok && t.quiet() && t.now() == turn && n > 0 {
		c.least, c.turn = n, turn
	}
}

// unless is the error of a client but for an absent key.
func unless(err error) error {
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}
