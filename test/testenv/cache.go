package testenv

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Variables that scripts/steady sets so that go test's result cache sees which programs the tests start: go
// test reuses a result only while the variables that the test has read keep their values.
const (
	programHash = "CINCH_TEST_PROGRAM_HASH" // hash of the program in CINCH_TEST_PROGRAM
	serversHash = "CINCH_TEST_SERVERS"      // hash of the installed programs
)

// cachedFor lets go test reuse results of this process only while the variable keeps its value. If the
// variable is not set, as in runs by hand, results are not cached at all.
func cachedFor(variable string) {
	if os.Getenv(variable) == "" {
		uncached()
	}
}

// uncached keeps go test from caching the results of this process. go test caches no result that depends on
// a file of the module that is younger than two seconds, and this file's time is in the future. In a
// read-only tree no such file is made.
var uncached = sync.OnceFunc(func() {
	module, err := above("go.mod")
	if err != nil {
		return
	}
	name := filepath.Join(module, ".uncached")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDONLY, 0o666)
	if err != nil {
		return
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && time.Until(info.ModTime()) < 24*time.Hour {
		future := time.Now().AddDate(1, 0, 0)
		_ = os.Chtimes(name, future, future)
	}
})
