package store

// Activity is a server's own count of its activity since it was started.
type Activity struct {
	Uptime float64 // seconds
	Reads  float64 // of values that existed
	Writes float64 // calls of commands that carry values
	Names  float64 // keys that it holds; 0: unknown
}
