package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMain(m *testing.M) {
	logging.Disable() // as main does
	testenv.Main(m)
}

// oneByOne runs scripts sequentially: commands run in this process, which has one working directory.
type oneByOne struct{ *testing.T }

func (oneByOne) Parallel()     {}
func (oneByOne) Verbose() bool { return testing.Verbose() }

func (o oneByOne) Run(name string, f func(testscript.T)) {
	o.T.Run(name, func(t *testing.T) { f(oneByOne{t}) })
}

// TestScripts runs the command lines in testdata/script. $VECTORS is the
// directory of the envelope's test vectors.
func TestScripts(t *testing.T) {
	t.Chdir(".") // restores the working directory at the end
	scripts, err := filepath.Abs("testdata/script")
	if err != nil {
		t.Fatal(err)
	}
	vectors := filepath.Join(scripts, "../../../../envelope/testdata/vectors")
	testscript.RunT(oneByOne{t}, testscript.Params{
		Dir: scripts,
		Setup: func(e *testscript.Env) error {
			e.Setenv("VECTORS", vectors)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "race" {
				return false, fmt.Errorf("no condition %q", name)
			}
			return testenv.RaceDetector, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cinch": runScripted, "from": runFrom, "exitcode": exitCodeIs, "orders": writeOrders, "noise": writeNoise, "numbers": writeNumbers,
		},
	})
}

// TestExamples checks that every command has a help text and an example.
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
	if code := scripted(ts, nil, args[2:]); strconv.Itoa(code) != args[0] {
		ts.Fatalf("%v ended with %d, want %s", args[1:], code, args[0])
	}
}

// runScripted runs cinch: cinch inspect …
func runScripted(ts *testscript.TestScript, neg bool, args []string) {
	if code := scripted(ts, nil, args); neg == (code == exitOK) {
		ts.Fatalf("cinch %v ended with %d", args, code)
	}
}

// runFrom runs cinch with a file as standard input: from FILE cinch inspect …
func runFrom(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "cinch" {
		ts.Fatalf("usage: from FILE cinch [ARGS]")
	}
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	if code := scripted(ts, f, args[2:]); code != exitOK {
		ts.Fatalf("%v ended with %d", args[1:], code)
	}
}

// scripted runs cinch in this process, with the script's directory and variables, and returns its exit code.
func scripted(ts *testscript.TestScript, in *os.File, args []string) int {
	before := os.Stdin
	os.Stdin = in // config check reads it by this name
	defer func() { os.Stdin = before }()
	ts.Check(os.Chdir(ts.MkAbs(".")))
	for _, name := range []string{configVariable, peerKeyVariable, indexVariable, config.PasswordFileVariable, "CINCH_LOG_LEVEL", "CINCH_MEMORY_BUDGET", "CINCH_REDIS", "CINCH_ZSTD"} {
		before, is := os.LookupEnv(name)
		ts.Check(os.Setenv(name, ts.Getenv(name)))
		defer func() {
			if is {
				_ = os.Setenv(name, before)
			} else {
				_ = os.Unsetenv(name)
			}
		}()
	}
	return run(args, in, ts.Stdout(), ts.Stderr())
}
