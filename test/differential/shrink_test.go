package differential

// shrink drops commands from a failing stream for as long as it keeps failing, by halves,
// then quarters and so on, and returns what is left. fails must start from an empty store.
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
