// Package differential runs the same random commands against a plain redis-server and against one behind
// gateways. It compares the replies byte by byte and, at the end, everything that is stored.
//
//	client_test.go    one connection, raw frames
//	values_test.go    values: sizes, shapes, bytes that look like envelopes
//	gen_test.go       generated commands (gen_*_test.go by kind of command)
//	runner_test.go    both sides in step, batch by batch
//	compare_test.go   replies as trees, for those without order or that depend on time
//	state_test.go     everything that is stored
//	shrink_test.go    from a difference to a short list of commands
//	diff_test.go      the modes
//	lines_test.go     the other versions of Redis and Valkey, and every command that they document
//	docs_test.go      a server's description of its commands (gen_docs_test.go: commands made from it)
//	mirror_test.go    the same commands with cinch shadow, onto equal servers and onto two versions
//	pieces_test.go    bytes split anywhere, on both sides of the gateways
//	cluster_test.go   the same on two clusters
//	conversation_test.go  pipelines in which replies could be mixed up
//	lost_update_test.go  several clients at once, and a final state that can be checked
//
// A difference is printed with its seed and its shortest form. To repeat a run:
//
//	go test ./test/differential -run TestDifferential/force -diff.n 100000 -seed 7
//
// All modes on all versions of servers, and each documented command some hundred times:
//
//	go test ./test/differential -run 'TestLines|TestEveryCommand' -diff.lines -timeout 60m
package differential
