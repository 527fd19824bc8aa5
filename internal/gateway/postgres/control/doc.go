// Package control is how somebody holds and moves the clients of a gateway for PostgreSQL that runs in another process: what is asked and
// answered (types.go), and a client for it (client.go). docs/POSTGRES.md has the order of things.
package control
