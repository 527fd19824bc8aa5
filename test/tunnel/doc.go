// Package tunnel runs real servers' own clients through a tunnel: two `cinch serve`, with
// mutual TLS between them.
package tunnel
