package mongo

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// goSuite runs internal/integration of the Go driver, in the version that this module uses.
func goSuite(t *testing.T, addr, set, log string, names []string) testenv.Outcomes {
	t.Helper()
	module := goDriver(t)
	args := []string{"tool", "test2json", "-t", filepath.Join(module, "integration.test"), "-test.v=test2json", "-test.timeout=30m"}
	if *suiteFiles != "" {
		args = append(args, "-test.run", *suiteFiles)
	}
	if len(names) > 0 {
		args = append(args, "-test.run", testenv.GoTestNames(names))
	}
	uri := "mongodb://" + addr + "/"
	if set != "" {
		uri += "?replicaSet=" + set
	}
	return testenv.RunGo(t, filepath.Join(module, "internal", "integration"), append(os.Environ(), "MONGODB_URI="+uri), log, args...)
}

// goDriver returns a copy of the driver's module with its tests compiled to integration.test. The published
// module lacks the specifications' test files.
func goDriver(t *testing.T) string {
	t.Helper()
	goProgram := testenv.Program(t, "go")
	return testenv.Cached(t, "go-driver", []string{"../../go.mod"}, func(dir string) {
		source := testenv.ModuleSource(t, "go.mongodb.org/mongo-driver/v2")
		if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), goProgram, "test", "-c", "-o", "integration.test", "./internal/integration")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
