package redis

import "sync/atomic"

// watching is what the client watches. As long as nothing that a transaction meets can have changed
// since it was looked at, what was found then is true for EXEC.
type watching struct {
	on     bool            // until EXEC, DISCARD or UNWATCH
	keys   map[string]bool // with their databases in front
	bytes  int
	broken *atomic.Bool // the server has refused a WATCH, or there were too many keys
}

// maxWatchedBytes bounds the keys that are remembered.
const maxWatchedBytes = 64 << 10

func (w *watching) add(space string, keys [][]byte) {
	if w.keys == nil {
		w.keys, w.broken = map[string]bool{}, new(atomic.Bool)
	}
	for _, k := range keys {
		if w.bytes += len(space) + 1 + len(k); w.bytes > maxWatchedBytes {
			w.broken.Store(true)
			return
		}
		w.keys[space+"/"+string(k)] = true
	}
}

// covers reports that all of the keys are watched; the server's answers must have come.
func (w *watching) covers(space string, keys [][]byte) bool {
	if w.keys == nil || w.broken.Load() {
		return false
	}
	for _, k := range keys {
		if !w.keys[space+"/"+string(k)] {
			return false
		}
	}
	return true
}
