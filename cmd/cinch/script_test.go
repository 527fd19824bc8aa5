package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"cinch": main})
}

// TestScripts runs the command lines in testdata/script. $VECTORS is the
// directory of the envelope's test vectors.
func TestScripts(t *testing.T) {
	vectors, err := filepath.Abs("../../testdata/vectors")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("VECTORS", vectors)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "race" {
				return false, fmt.Errorf("no condition %q", name)
			}
			return underRace, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": exitCodeIs, "orders": writeOrders, "noise": writeNoise,
		},
	})
}

// TestExamples: every command explains itself, with an example.
func TestExamples(t *testing.T) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.Contains(cmd.Example, "  cinch") || strings.HasPrefix(cmd.Example, "\n") {
			t.Errorf("%s: no short text, or no example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRootCommand())
}

// exitCodeIs runs a command that must end with the given code: exitcode 12 cinch inspect …
func exitCodeIs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND [ARGS]")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if e, ok := err.(interface{ ExitCode() int }); ok {
		code = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if want := args[0]; want != strconv.Itoa(code) {
		ts.Fatalf("%v ended with %d, want %s", args[1:], code, want)
	}
}
