// Command mutants checks that the tests still find past faults. It brings the faults back one at a time and
// reports which ring of tests finds each: ring 1 is that of `make short`, ring 2 that of `make test` (see
// test/doc.go).
//
//	go run ./test/mutants -list                    the faults, by area
//	go run ./test/mutants                          runs them all, and appends to test/mutants/results.csv
//	go run ./test/mutants -only redis              one area, or AREA/NAME
//	go run ./test/mutants -ring 2 -tree DIR        ring 2 only, of another checkout
//
// faults/AREA.yaml lists the faults. Each names the commit that fixed it and holds an edit: text within a
// function, method or other declaration of a package, compared without white space and comments, and its
// replacement. An edit still applies when code moves between files. When it no longer applies,
// TestFaultsApply fails: adapt it, or set `dropped` to the reason.
//
// The source tree is never written to: `go test -overlay` compiles the edited copy, and programs that tests
// build get it too. A test finds a fault if it fails with it twice, the second time alone, and passes
// without it. Other failing tests are reported as unsteady and ignored.
//
// results.csv has one row for each fault and commit of the tested tree; faults with a row are not measured
// again. The rows of 616ce4e2 are from ring 2 alone, since -short did not leave out servers then. Faults of
// some areas were tried only with the tests of their fixes (-run), to save time.
package main
