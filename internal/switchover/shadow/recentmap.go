package shadow

// Recent is a map that keeps the values put last: at most as many as the limit given to Put, and at least the
// last half of that. The zero value is empty.
type Recent[K comparable, V any] struct{ young, old map[K]V }

// Put adds or replaces a value. If the young half is full, it becomes the old half, and the values that were
// in that are dropped.
func (r *Recent[K, V]) Put(k K, v V, most int) {
	if _, known := r.young[k]; !known && len(r.young) >= most/2 {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = map[K]V{}
	}
	r.young[k] = v
}

// Get returns a value. It does not make it young again.
func (r *Recent[K, V]) Get(k K) (v V, ok bool) {
	if v, ok = r.young[k]; !ok {
		v, ok = r.old[k]
	}
	return v, ok
}
