// Package http runs HTTP clients directly against servers and through gateways, and checks that the results
// differ only in the content codings of bodies.
//
//	smuggling_test.go  messages that two readers could read in two ways
//	downgrade_test.go  the same in HTTP/2's frames
//	h2spec_test.go     h2spec, built by test/http/tools
//	curl_test.go       many curl command lines, direct and through a gateway
//	exchange_test.go   exchanges byte by byte: 1xx, early replies, both directions at once, cut-off messages
//	clients_test.go    clients in Go, Python and Node; WebSocket, server-sent events, gRPC
//	races_test.go      connections that end while they are used, drains, gateways in a row
//	remote_test.go     Prometheus' remote write, with gateways that are killed
//
// The flag -http.long selects longer forms.
package http
