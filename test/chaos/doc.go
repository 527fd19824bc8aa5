// Package chaos kills, drains, reloads and feeds garbage to gateways and servers under load,
// and then looks whether anything was lost.
//
//	client_test.go   one connection, raw frames
//	model_test.go    what a client has written, and what may be stored after a crash
//	writer_test.go   the load
//	kill_test.go     SIGKILL for the gateway, or for the server
//	drain_test.go    SIGTERM and SIGHUP under load
//	hostile_test.go  requests and stored values that nobody should send
//
// The flag -seed decides the choices of a run, though not its timing.
package chaos
