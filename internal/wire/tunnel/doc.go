// Package tunnel turns bytes into the hellos and frames that two gateways of a tunnel
// exchange, and back. docs/TUNNEL.md describes them. It does no I/O and knows no codec.
package tunnel
