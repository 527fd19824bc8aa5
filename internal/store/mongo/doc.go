// Package mongo reads from a MongoDB deployment what a plan needs: the collections, a sample of their
// documents, and the server's counters of operations. It uses the driver, changes nothing, and is not on the
// data path.
//
//	server.go      the connection, collections and documents
//	activity.go    the server's counters, as far as the user may read them
//	profile.go     the profiler's entries, where it is on
package mongo
