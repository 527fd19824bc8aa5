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

// turns counts failovers, once at the start and once at the end, so that it is odd during one. Values
// acknowledged before the latest failover may be lost, since replication is asynchronous, but a value that
// is there must be right.
type turns struct {
	n    atomic.Int64
	ours atomic.Int64 // finished failovers that the test has started
}

func (t *turns) begin()      { t.n.Add(1) }
func (t *turns) end()        { t.n.Add(1); t.ours.Add(1) }
func (t *turns) switched()   { t.n.Add(2) }
func (t *turns) now() int64  { return t.n.Load() }
func (t *turns) quiet() bool { return t.now()%2 == 0 }

// trouble records errors of clients while no failover started by the test was in progress. On a busy
// machine Sentinels may start a failover by themselves, which explains errors near it.
type trouble struct {
	mu       sync.Mutex
	failures []failure
	switches []time.Time
}

type failure struct {
	at   time.Time
	text string
}

// near limits the time between a failover and its errors: Sentinels do not reconfigure an old primary for
// that long.
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

// unexplained returns the errors without a failover near them.
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

// text returns version n of a key's value, of about size bytes. A reader can check that it is complete.
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

// versionOf returns the version of the key's value that s is. ok is false if it is none.
func versionOf(key, s string) (n int, ok bool) {
	var size int
	if _, err := fmt.Sscanf(s, fmt.Sprintf(`{"key":%q,"n":%%d,"size":%%d,`, key), &n, &size); err != nil {
		return 0, false
	}
	return n, s == text(key, n, size)
}

// cell is one worker's record of a key that only it writes.
type cell struct {
	key         string
	least, most int   // bounds of the version; 0: missing
	turn        int64 // turn in which least was acknowledged
}

// wrote records the result of a write of version n that began in the given turn.
func (c *cell) wrote(n int, turn int64, t *turns, err error) {
	c.most = max(c.most, n)
	if err == nil && t.quiet() && t.now() == turn {
		c.least, c.turn = n, turn
	}
}

// read checks a value; "" means missing.
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

// unless returns a client's error, or nil if it only means that the key is missing.
func unless(err error) error {
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}
