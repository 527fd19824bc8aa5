package redis

import (
	"container/heap"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// subject identifies something with a time to live: a key, or a field of a hash.
type subject struct {
	db, key string
	field   string
	ofHash  bool // field is set
}

func (s subject) bytes() int64 { return int64(len(s.key)+len(s.field)) + deadlineBytes }

// deadline is the time when a subject expires in production, between from and to: the exact time when
// production executed the command that set it is not known.
type deadline struct {
	subject
	from, to   time.Time
	answeredAt time.Time // when production had answered that command
	index      int       // in the heap
}

// deadlines holds the deadlines to come. It is safe for concurrent use. The zero value is ready.
type deadlines struct {
	mu             sync.Mutex
	bySubject      map[subject]*deadline
	next           queue
	bytes          int64
	otherDatabases bool // databases other than 0 are used

	doubtful shadow.Recent[subject, struct{}] // servers may have expired them
}

// maxDeadlines limits the bytes of deadlines. Those more than farAway ahead may take half of it, so that
// there is room for the near ones, which matter most.
const (
	maxDeadlines  = 32 << 20
	deadlineBytes = 256 // besides the names
	farAway       = time.Minute
	maxDoubtful   = 50_000 // those that come later displace the earliest: if all counted, lost writes would be excused
)

// fits reports whether there is room for a deadline of s that is over after the duration in.
func (d *deadlines) fits(s subject, in time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := int64(maxDeadlines)
	if in > farAway {
		limit /= 2
	}
	return d.bySubject[s] != nil || d.bytes+s.bytes() <= limit
}

// set stores a deadline, unless a newer one is known.
func (d *deadlines) set(n deadline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.otherDatabases = d.otherDatabases || n.db != "0"
	if old := d.bySubject[n.subject]; old != nil {
		if !n.answeredAt.Before(old.answeredAt) {
			old.from, old.to, old.answeredAt = n.from, n.to, n.answeredAt
			heap.Fix(&d.next, old.index)
		}
		return
	}
	if d.bySubject == nil {
		d.bySubject = map[subject]*deadline{}
	}
	d.bySubject[n.subject] = &n
	d.bytes += n.bytes()
	heap.Push(&d.next, &n)
}

func (d *deadlines) get(s subject) (deadline, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.bySubject[s]; found != nil {
		return *found, true
	}
	return deadline{}, false
}

// markDoubtful records that a server may have expired a subject by its own clock.
func (d *deadlines) markDoubtful(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doubtful.Put(s, struct{}{}, maxDoubtful)
}

// isDoubtful reports whether markDoubtful was called for a subject. If so it repeats the call, because a
// difference that the expiry has caused may last.
func (d *deadlines) isDoubtful(s subject) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.doubtful.Get(s)
	if found {
		d.doubtful.Put(s, struct{}{}, maxDoubtful)
	}
	return found
}

func (d *deadlines) drop(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.bySubject[s]; found != nil {
		heap.Remove(&d.next, found.index)
		d.remove(found)
	}
}

func (d *deadlines) remove(found *deadline) {
	delete(d.bySubject, found.subject)
	d.bytes -= found.bytes()
}

// popExpired removes up to most deadlines that are over at the given time, and returns their subjects in order. several
// reports whether databases other than 0 are used.
func (d *deadlines) popExpired(at time.Time, most int) (over []subject, several bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.next) > 0 && len(over) < most && !d.next[0].to.After(at) {
		first := heap.Pop(&d.next).(*deadline)
		d.remove(first)
		over = append(over, first.subject)
	}
	return over, d.otherDatabases
}

// queue implements heap.Interface, ordered by the end of the deadlines.
type queue []*deadline

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].to.Before(q[j].to) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	d := x.(*deadline)
	d.index = len(*q)
	*q = append(*q, d)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
