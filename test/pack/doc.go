// Package pack tests cinch pack, unpack and verify on real servers while clients write. Whichever process
// is killed at any time, nothing is lost and no expiry changes.
package pack
