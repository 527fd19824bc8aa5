package postgres

import (
	"slices"
	"strconv"
	"sync"
)

// processes are those of a target that serve the mirror's connections. A lock that another one has, as the process of a connection that has ended may
// for a while, or an autovacuum, is given back without anything that the mirror does.
type processes struct {
	mu  sync.Mutex
	own map[string]int // connections: a pool gives a process to another one
}

func (p *processes) add(pid uint32, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == nil {
		p.own = map[string]int{}
	}
	key := strconv.FormatUint(uint64(pid), 10)
	if p.own[key] += n; p.own[key] <= 0 {
		delete(p.own, key)
	}
}

// preparedTransaction stands for transactions that were prepared, which the mirror ends as clients do.
const preparedTransaction = "0"

// others reports whether one of them is nobody's of the mirror.
func (p *processes) others(pids []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(pids, func(pid string) bool { return pid != preparedTransaction && p.own[pid] == 0 })
}
