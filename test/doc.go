// Package test holds the tests that start programs. The programs in scripts run all tests, which come in
// rings:
//
//   - Ring 1, go test -short ./... (make short): no process but go list, no server; timers in
//     testing/synctest. Most tests belong here, beside the code that they test.
//   - Ring 2, make test: also tests on real servers that compare direct access with access through a
//     gateway. The tests of a package share one server (testenv.Main, testenv.Shared); each uses its own
//     database or key prefix and runs in parallel.
//   - Ring 3, .ci/run (make ci): ring 2, lint, the race detector, every fuzz target briefly, four minutes
//     of ring 4.
//   - Ring 4, make full: tests that take minutes and tests of other projects, one line of test/full.txt
//     each. A test that calls testenv.Full runs in ring 4 only; a line must match it. Results are committed
//     in test/full.csv.
//
// No test depends on how fast the machine is: scripts/loaded runs ring 2 repeatedly beside other load and
// records into test/loaded.csv.
package test
