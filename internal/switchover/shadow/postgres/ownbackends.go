package postgres

import (
	"slices"
	"strconv"
	"sync"
)

// processes counts the mirror's connections per server process of a target. A lock of any other process, such
// as one whose connection has ended or an autovacuum, is released without help of the mirror.
type processes struct {
	mu          sync.Mutex
	connections map[string]int // connections by process: a pool may use a process for several, one after the other
}

func (p *processes) add(pid uint32, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connections == nil {
		p.connections = map[string]int{}
	}
	key := strconv.FormatUint(uint64(pid), 10)
	if p.connections[key] += n; p.connections[key] <= 0 {
		delete(p.connections, key)
	}
}

// preparedTransaction stands for prepared transactions, which the mirror ends as clients do.
const preparedTransaction = "0"

// anyForeign reports whether one of the processes is not the mirror's.
func (p *processes) anyForeign(pids []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(pids, func(pid string) bool { return pid != preparedTransaction && p.connections[pid] == 0 })
}
