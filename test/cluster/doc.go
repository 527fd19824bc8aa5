// Package cluster tests the Redis gateway in front of real clusters: no acknowledged write is lost and no
// read is wrong through slot migrations and failovers.
package cluster
