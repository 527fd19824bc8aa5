// Command mutants proves that the tests still find what tests found before. It brings back past faults one at a time and says
// which ring of tests finds each: ring 1 is that of `make short`, ring 2 that of `make test` (see test/doc.go).
//
//	go run ./test/mutants -list                    the faults, by area
//	go run ./test/mutants                          runs them all, and appends to test/mutants/results.csv
//	go run ./test/mutants -only redis              one area, or AREA/NAME
//	go run ./test/mutants -ring 2 -tree DIR        ring 2 only, of another checkout
//
// faults/AREA.yaml lists the faults. Each names the commit that fixed it and holds an edit: text within a function, method or
// other declaration of a package, compared without white space and comments, and what replaces it. So an edit survives when code
// moves between files. When it no longer applies, TestFaultsApply fails: adapt it, or set `dropped` to the reason.
//
// The source tree is never written to: `go test -overlay` compiles the edited copy, and programs that tests build get it too.
// A test finds a fault if it fails with it twice, the second time alone, and passes without it. Others are reported as unsteady
// and left out.
//
// results.csv has one row for each fault and commit of the tested tree; faults that it has are not measured again. Those of
// 616ce4e2 are from ring 2 alone, as -short did not leave out servers then; faults of some areas were tried with the tests of
// their fixes only (-run), to save time.
package main
