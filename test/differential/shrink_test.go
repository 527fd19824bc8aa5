package differential

// shrink removes commands from a failing stream while it still fails, first by halves, then quarters and so
// on, and returns the remaining steps. fails must start from an empty store. tries limits its calls.
func shrink(steps []step, fails func([]step) bool, tries int) []step {
	for size := len(steps) / 2; size > 0 && tries > 0; {
		dropped := false
		for at := 0; at < len(steps) && tries > 0; {
			end := min(at+size, len(steps))
			rest := append(append([]step{}, steps[:at]...), steps[end:]...)
			tries--
			if len(rest) > 0 && fails(rest) {
				steps, dropped = rest, true
				continue
			}
			at = end
		}
		if !dropped || size > 1 {
			size /= 2
		}
	}
	return steps
}
