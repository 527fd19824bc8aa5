package redis

import "sync/atomic"

// watching is what the client watches. As long as nothing that a transaction meets can have changed
// since it was looked at, what was found then is true for EXEC.
type watching struct {
	on   bool // until EXEC, DISCARD or UNWATCH
	keys *watchedKeys
}

// watchedKeys are remembered with their databases in front.
type watchedKeys struct {
	all    map[string]bool
	bytes  int
	broken atomic.Bool // the server has refused a WATCH, or there were too many keys
}

// maxWatchedBytes bounds the keys that are remembered.
const maxWatchedBytes = 64 << 10

// begin watches more keys.
func (w *watching) begin(space string, keys [][]byte) *watchedKeys {
	w.on = true
	if w.keys == nil {
		w.keys = &watchedKeys{all: map[string]bool{}}
	}
	w.keys.add(space, keys)
	return w.keys
}

func (w *watchedKeys) add(space string, keys [][]byte) {
	for _, k := range keys {
		if w.bytes += len(space) + 1 + len(k); w.bytes > maxWatchedBytes {
			w.broken.Store(true)
			return
		}
		w.all[space+"/"+string(k)] = true
	}
}

// covers reports that all of the keys are watched; the server's answers must have come.
func (w *watching) covers(space string, keys [][]byte) bool {
	if w.keys == nil || w.keys.broken.Load() {
		return false
	}
	for _, k := range keys {
		if !w.keys.all[space+"/"+string(k)] {
			return false
		}
	}
	return true
}
