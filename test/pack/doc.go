// Package pack holds tests of cinch pack, unpack and verify on real servers with clients
// that write meanwhile: nothing is lost, no expiry moves, whoever is killed when.
package pack
