// Package mongotest starts real servers of MongoDB for tests, as package testenv starts those of other protocols. It stands
// apart because it needs MongoDB's driver, which makes a test program that links it larger by half.
package mongotest
