// Package redis tests the Redis gateway with every server version in use (testenv.RedisLines), above all
// the features of newer ones.
package redis
