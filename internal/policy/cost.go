package policy

// Cost is what the server allocates for a value of raw bytes and for one of sealed bytes
// in its place, in bytes: what Worth compares.
func Cost(t Type, raw, sealed int) (before, after int) { return sizes(t, raw, sealed) }
