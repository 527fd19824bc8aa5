// Package upgrade lets listeners outlive a process, so that no client is refused while another takes its place.
//
//	systemd (LISTEN_FDS) ─┐
//	predecessor ───────────┴─> Sockets.Listen ─> gateways ─> Sockets.Replace ─> successor
//
// A listening socket belongs to every process with a descriptor of it: the kernel queues clients that connect
// while no process accepts. So a process that is replaced starts its successor with all of its sockets, and
// stops accepting when the successor serves. SO_REUSEPORT would be simpler but is not sufficient: each
// process would have a queue of its own, and clients waiting in a queue that is closed are refused.
//
// In reading order: replace.go starts the successor, sockets.go listens, inherited.go takes over what a
// process was started with, systemd.go notifies systemd.
package upgrade
