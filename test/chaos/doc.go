// Package chaos kills, drains and reloads gateways and servers under load, sends them garbage, and then
// checks that nothing was lost.
//
//	client_test.go   one connection, raw frames
//	model_test.go    what a client has written, and what may be stored after a crash
//	writer_test.go   the load
//	kill_test.go     SIGKILL for the gateway, or for the server
//	drain_test.go    SIGTERM and SIGHUP under load
//	hostile_test.go  malicious requests and stored values
//
// The flag -seed determines the choices of a run, though not its timing.
package chaos
