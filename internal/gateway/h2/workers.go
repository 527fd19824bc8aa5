package h2

import "sync"

// maxIdleWorkers is how many goroutines wait for work. With more requests under way at once than that, stacks grow for each.
const maxIdleWorkers = 512

// runner is some work. It recovers from its own panics: a worker does not know whose they are.
type runner interface{ run() }

// workers do work in goroutines that are used again, so that their stacks need not grow each time.
var workers workerPool

type workerPool struct {
	mu   sync.Mutex
	idle []chan runner // of those that wait, the last to have begun with that last
}

// run returns at once.
func (p *workerPool) run(r runner) {
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		go p.work(r)
		return
	}
	w := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	p.mu.Unlock()
	w <- r
}

func (p *workerPool) work(r runner) {
	next := make(chan runner, 1)
	for {
		r.run()
		r = nil // what it holds is not to wait with us
		p.mu.Lock()
		if len(p.idle) >= maxIdleWorkers {
			p.mu.Unlock()
			return
		}
		p.idle = append(p.idle, next)
		p.mu.Unlock()
		r = <-next
	}
}
