// Package redis tests the Redis gateway against every line of servers that people run
// (testenv.RedisLines), above all with what newer lines have and older ones have not.
package redis
