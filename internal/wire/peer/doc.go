// Package peer parses and writes the hellos and frames that two gateways exchange over a link. docs/PEER.md
// specifies them. It does no I/O and knows no codec.
package peer
