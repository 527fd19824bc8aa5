package store

// Activity holds a server's own counters since its start.
type Activity struct {
	Uptime float64 // seconds
	Reads  float64 // of values that existed
	Writes float64 // calls of commands that carry values
	Keys   float64 // number of keys, not a counter; 0: unknown
}
