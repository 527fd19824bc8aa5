// Package control is the API for holding and moving the clients of a PostgreSQL gateway in another process:
// the requests and responses (types.go) and a client (client.go). docs/POSTGRES.md describes the procedure.
package control
