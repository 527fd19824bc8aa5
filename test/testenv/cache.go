package testenv

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// What go test cannot see of the programs that tests start, for its cache of results: variables that test/steady sets. Go keeps a
// result for the values of the variables that the test has read.
const (
	programHash = "CINCH_TEST_PROGRAM_HASH" // of the program in CINCH_TEST_PROGRAM
	serversHash = "CINCH_TEST_SERVERS"      // of the programs that are installed
)

// cachedFor lets go test reuse the results of this process only while a variable has the same value, and not at all where it is
// not set, as in runs by hand.
func cachedFor(variable string) {
	if os.Getenv(variable) == "" {
		uncached()
	}
}

// uncached keeps go test from caching the results of this process. It caches none that depend on a file of the module which is younger
// than two seconds, and this one is from the future. A tree that cannot be written to has no such file.
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
