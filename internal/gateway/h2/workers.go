package h2

import "sync"

// maxIdleWorkers is how many goroutines wait for work.
const maxIdleWorkers = 64

// workers run functions in goroutines that are used again, so that their stacks need not grow each time.
var workers workerPool

type workerPool struct {
	mu   sync.Mutex
	idle []chan func() // of those that wait, the last to have begun with that last
}

// run returns at once.
func (p *workerPool) run(f func()) {
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		go p.work(f)
		return
	}
	w := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	p.mu.Unlock()
	w <- f
}

func (p *workerPool) work(f func()) {
	next := make(chan func(), 1)
	for {
		f()
		f = nil // what it holds is not to wait with us
		p.mu.Lock()
		if len(p.idle) >= maxIdleWorkers {
			p.mu.Unlock()
			return
		}
		p.idle = append(p.idle, next)
		p.mu.Unlock()
		f = <-next
	}
}
