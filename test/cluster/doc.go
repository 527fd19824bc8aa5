// Package cluster tests the Redis gateway in front of real clusters: through slot
// migrations and failovers no write that was answered is lost, and nothing reads wrong.
package cluster
