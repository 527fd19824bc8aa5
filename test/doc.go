// Package test holds the tests that start programs, and the scripts that run all tests. Tests come in rings:
//
//   - Ring 1, go test -short ./... (make short): no process but go list, no server; timers in testing/synctest. Most tests
//     belong here, beside the code that they test.
//   - Ring 2, make test: also the same thing direct and through, on the real server. A package has one server for its tests
//     (testenv.Main, testenv.Shared); each test has a database or a prefix of its own and runs in parallel.
//   - Ring 3, .ci/run (make ci): ring 2, lint, the race detector, every fuzz target for a moment, four minutes of ring 4.
//   - Ring 4, make full: what takes minutes or is not ours, a line of test/full.txt each. A test that calls testenv.Full runs in
//     ring 4 only; a line has to match it. Results are committed in test/full.csv.
//
// No test depends on how fast the machine is: test/loaded runs ring 2 again and again beside other load, into test/loaded.csv.
package test
