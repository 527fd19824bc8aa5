// Package tarantool runs the own tests of drivers for Tarantool (tarantool-python, asynctnt,
// go-tarantool) through gateways that seal every field that they may.
package tarantool
