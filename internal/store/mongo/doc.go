// Package mongo looks at a MongoDB deployment for plans: which collections there are, a
// sample of their documents, and what the server has counted of operations. It asks with the
// driver, changes nothing, and is not on the data path.
//
//	server.go      the connection, collections and documents
//	activity.go    what the server has counted, as far as the user may know
//	profile.go     what the profiler has seen, where it is on
package mongo
