package store

// Activity is a server's own account of what it does, since it was started.
type Activity struct {
	Uptime float64 // seconds
	Reads  float64 // of keys that were there
	Writes float64 // calls of commands that carry values
}
