package store

// ScanOptions say what a step of a scan takes.
type ScanOptions struct {
	Count int    // keys, about
	Match string // a pattern for the server to choose keys by; "": all
	Kind  string // a type for the server to choose keys by; "": all
	RunID string // of the node when the cursor was given: by another one Page returns ErrRestarted; "": any
	Read  ReadOptions
}

// A Page is what a step of a scan found.
type Page struct {
	Keys [][]byte
	// Values are those at the keys, in their order, where a scan gives them anyway. Nil: they
	// are to be read.
	Values []*Value
	// Next is where the scan goes on, as only the store understands it; "" at its end.
	Next string
}
