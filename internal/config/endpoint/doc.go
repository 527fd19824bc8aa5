// Package endpoint parses the URLs of the servers that Cinch connects to, reads TLS files, and dials. In reading order:
//
//	upstream.go    URLs, connecting, whether only this machine can reach an address; postgres.go URLs of PostgreSQL
//	tls.go         certificates and keys, reloaded while running
//	descriptors.go shortage of file descriptors; unanswered.go connections that are lost
package endpoint
