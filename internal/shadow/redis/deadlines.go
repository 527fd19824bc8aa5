package redis

import (
	"container/heap"
	"sync"
	"time"
)

// subject is what has a time to live: a key, or a field of a hash.
type subject struct {
	db, key string
	field   string
	ofHash  bool // it is the field
}

func (s subject) bytes() int64 { return int64(len(s.key)+len(s.field)) + deadlineBytes }

// deadline is when production ends a subject: between from and to, since nobody sees when production carried out what gave it its life.
type deadline struct {
	subject
	from, to time.Time
	made     time.Time // when production had answered that
	place    int       // in the heap
}

// deadlines are those that are to come. It is safe for concurrent use. The zero value is ready.
type deadlines struct {
	mu      sync.Mutex
	of      map[subject]*deadline
	next    queue
	bytes   int64
	several bool // databases are used, and not the first alone

	doubtful    map[subject]bool // servers may have ended them
	allDoubtful bool
}

// mostDeadlines bounds the bytes of deadlines. Those that are far away may take half of it, so that there is room for those that matter most.
const (
	mostDeadlines = 32 << 20
	deadlineBytes = 256 // beside names
	farAway       = time.Minute
	mostDoubtful  = 50_000
)

// fits reports whether there is room for a deadline that so much later comes.
func (d *deadlines) fits(s subject, in time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := int64(mostDeadlines)
	if in > farAway {
		limit /= 2
	}
	return d.of[s] != nil || d.bytes+s.bytes() <= limit
}

// set notes a deadline, unless a newer one is known.
func (d *deadlines) set(n deadline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.several = d.several || n.db != "0"
	if old := d.of[n.subject]; old != nil {
		if !n.made.Before(old.made) {
			old.from, old.to, old.made = n.from, n.to, n.made
			heap.Fix(&d.next, old.place)
		}
		return
	}
	if d.of == nil {
		d.of = map[subject]*deadline{}
	}
	d.of[n.subject] = &n
	d.bytes += n.bytes()
	heap.Push(&d.next, &n)
}

// get returns what is known of a subject.
func (d *deadlines) get(s subject) (deadline, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.of[s]; found != nil {
		return *found, true
	}
	return deadline{}, false
}

// doubt notes that a server may have ended a subject by its own clock.
func (d *deadlines) doubt(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.doubtful == nil {
		d.doubtful = map[subject]bool{}
	}
	if d.allDoubtful = len(d.doubtful) >= mostDoubtful; !d.allDoubtful {
		d.doubtful[s] = true
	}
}

// doubted reports what doubt has noted.
func (d *deadlines) doubted(s subject) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.allDoubtful || d.doubtful[s]
}

// drop forgets a subject.
func (d *deadlines) drop(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.of[s]; found != nil {
		heap.Remove(&d.next, found.place)
		d.forget(found)
	}
}

func (d *deadlines) forget(found *deadline) {
	delete(d.of, found.subject)
	d.bytes -= found.bytes()
}

// past takes out, in their order, as many as most of those that are over at a time.
func (d *deadlines) past(at time.Time, most int) (over []subject, several bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.next) > 0 && len(over) < most && !d.next[0].to.After(at) {
		first := heap.Pop(&d.next).(*deadline)
		d.forget(first)
		over = append(over, first.subject)
	}
	return over, d.several
}

// queue is deadlines, for package heap.
type queue []*deadline

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].to.Before(q[j].to) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push is heap's.
func (q *queue) Push(x any) {
	d := x.(*deadline)
	d.place = len(*q)
	*q = append(*q, d)
}

// Pop is heap's.
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
