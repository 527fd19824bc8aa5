package h2

import "math"

// maxWindow is what a window may grow to (RFC 9113, section 6.9.1).
const maxWindow = math.MaxInt32

// initialWindow is that of streams and connections before anybody has said otherwise (section 6.9.2).
const initialWindow = 65_535

// inflow is a window that we have given: how much may still come, and what was read and not told yet.
type inflow struct {
	size   int64 // of the whole window
	left   int64
	untold int64
}

// take counts what came. It reports false when that was more than allowed.
func (w *inflow) take(n int64) bool {
	w.left -= n
	return w.left >= 0
}

// give returns what a WINDOW_UPDATE should say after n bytes were read: 0 for none yet. What nobody reads may take most of a window:
// then the rest must not wait for half of the whole.
func (w *inflow) give(n int64) uint32 {
	w.untold += n
	if w.untold*2 < w.size && w.untold < w.left {
		return 0
	}
	told := w.untold
	w.left += told
	w.untold = 0
	return uint32(told)
}
