// Package search holds tests of search indexes over hashes (RediSearch) behind the Redis gateway: queries
// have to answer as they do without it, whenever and by whom an index was made.
package search
