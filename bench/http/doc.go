// Command http measures the CPU time and latency that one hop adds to a POST over HTTP/1.1, or over HTTP/2
// without TLS. It compares: no proxy between client and server, HAProxy, Go's httputil.ReverseProxy, and
// cinch as it passes bodies on, compresses them, or carries them between two gateways with history.
//
//	go run ./bench/http           four minutes, on a quiet machine; writes bench/results/http-hop.md
//	go run ./bench/http -http2    only prints; -beside FILE measures another build of cinch in turn with this one
//
//	main.go     rounds, and the table
//	ways.go     the proxies between client and server
//	load.go     the client
//	serve.go    the server and the reverse proxy, as separate processes
package main
