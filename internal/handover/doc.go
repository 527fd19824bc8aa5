// Package handover lets listeners outlive a process, so that no client is refused while another takes its place.
//
//	systemd (LISTEN_FDS) ───┐
//	the process before us ──┴──> Sockets.Listen ──> gateways ──> Sockets.Replace ──> the process after us
//
// A listening socket belongs to whoever has a descriptor of it: clients who connect while nobody accepts are queued by the
// kernel. So a process that is replaced starts its successor with all of its sockets, and stops accepting when that
// serves. SO_REUSEPORT would be simpler and is not enough: each process has a queue of its own then, and who waits in
// one that is closed is refused.
//
// In reading order: replace.go starts the successor, sockets.go listens, inherited.go takes what a process was started
// with, manager.go tells systemd.
package handover
