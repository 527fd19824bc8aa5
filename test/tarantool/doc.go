// Package tarantool runs the tests of drivers for Tarantool (tarantool-python, asynctnt, go-tarantool)
// through gateways that compress every field that they may.
package tarantool
