// Package mongotest starts real MongoDB servers for tests, as package testenv starts servers of other
// protocols. It is a package of its own because it needs MongoDB's driver, which makes a test program half
// as large again.
package mongotest
