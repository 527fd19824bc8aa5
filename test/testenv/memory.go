package testenv

import "runtime"

// InUse is what heap and stacks take when everything that is not needed has gone.
func InUse() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied in two steps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
