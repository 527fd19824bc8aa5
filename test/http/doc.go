// Package http runs clients of HTTP directly against servers and through gateways, and demands that nobody can tell the
// difference, but by the content codings of bodies.
//
//	smuggling_test.go  messages that two readers could read in two ways
//	downgrade_test.go  the same in HTTP/2's frames
//	h2spec_test.go     h2spec, built by test/http/tools
//	curl_test.go       what curl does, direct and through
//	exchange_test.go   exchanges byte by byte: 1xx, early replies, both ways at once, cut off
//	clients_test.go    clients in Go, Python and Node; WebSocket, server-sent events, gRPC
//	races_test.go      connections that end when they are used, drains, gateways in a row
//	remote_test.go     Prometheus' remote write, with gateways that are killed
//
// Longer forms are asked for: -http.long.
package http
