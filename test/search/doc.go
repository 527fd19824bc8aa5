// Package search tests search indexes over hashes (RediSearch) behind the Redis gateway: queries must give
// the same answers as without it, however and whenever an index was created.
package search
