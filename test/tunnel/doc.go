// Package tunnel runs real servers' own clients through a tunnel: two `cinch serve` processes with mutual
// TLS between them.
package tunnel
