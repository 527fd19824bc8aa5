package store

// ScanOptions configure one step of a scan.
type ScanOptions struct {
	Count int    // approximate number of keys
	Match string // a pattern for the server to choose keys by; "": all
	Kind  string // a type for the server to choose keys by; "": all
	RunID string // of the node that returned the cursor, or Page returns ErrRestarted; "": not checked
	Read  ReadOptions
}

// A Page is the result of one step of a scan.
type Page struct {
	Keys [][]byte
	// Values are the values at Keys, in the same order, if the scan returns them anyway. Nil: they must be
	// read.
	Values []*Value
	// Next is the cursor of the next step, opaque to callers; "" at the end.
	Next string
}
