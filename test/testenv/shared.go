package testenv

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Main runs the tests of a package, stops what Shared has started for them, and exits. A package that uses
// Shared declares
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
func Main(m *testing.M) {
	postgresFirst()
	code := m.Run()
	if log := shared.end(); shared.failed && code == 0 {
		fmt.Fprintf(os.Stderr, "FAIL: what the tests of this package share\n%s", log)
		code = 1
	}
	os.Exit(code)
}

// Shared returns the result of start, which is called once per key in a run of a package's tests, by the
// first test that asks. start gets a testing.TB that lives as long as the run: servers that it starts serve
// all tests, and stop in Main. Each test uses its own database, schema or key prefix, and may run in
// parallel. A test that changes settings of a server, or stops it, starts one of its own.
//
//	server := testenv.Shared(t, "redis", func(t testing.TB) *testenv.RedisServer { return testenv.Redis(t) })
//
// If start fails or skips, all tests that ask for the key fail or skip with its message.
func Shared[T any](t testing.TB, key string, start func(testing.TB) T) T {
	t.Helper()
	shared.mu.Lock()
	s := shared.started[key]
	if s == nil {
		s = &sharedStart{}
		shared.started[key] = s
	}
	shared.mu.Unlock()
	s.once.Do(func() {
		s.skipped, s.missing, s.message = shared.run(func() { s.value = start(&shared) })
	})
	switch {
	case s.skipped:
		if s.missing {
			recordSkip(s.message)
		}
		t.Skip(s.message)
	case s.message != "":
		t.Fatal(s.message)
	}
	return s.value.(T)
}

// sharedStart is one call of a start function.
type sharedStart struct {
	once    sync.Once
	value   any
	skipped bool
	missing bool   // skipped by Missing
	message string // why it was skipped or has failed; "": neither
}

// shared is the testing.TB for everything that lives as long as the package's run.
var shared = sharedTB{started: map[string]*sharedStart{}}

type sharedTB struct {
	testing.TB // nil: methods that are not defined below panic

	mu       sync.Mutex
	started  map[string]*sharedStart
	cleanups []func()
	log      strings.Builder
	failed   bool
	skips    string // the message of Skip
	missing  bool   // Missing was called
	fatal    string // the message of Fatal
	running  sync.Mutex
}

// run calls start in a new goroutine, since Fatal and Skip end it.
func (s *sharedTB) run(start func()) (skipped, missing bool, message string) {
	s.running.Lock()
	defer s.running.Unlock()
	s.skips, s.missing, s.fatal = "", false, "it ended early"
	done := make(chan struct{})
	go func() {
		defer close(done)
		start()
		s.fatal = ""
	}()
	<-done
	if s.skips != "" {
		return true, s.missing, s.skips
	}
	return false, false, s.fatal
}

// end calls the clean-up functions, last first, and returns what was logged.
func (s *sharedTB) end() string {
	for _, clean := range slices.Backward(s.cleanups) {
		clean()
	}
	return s.log.String()
}

func (s *sharedTB) Helper()                  {}
func (s *sharedTB) Name() string             { return "shared" }
func (s *sharedTB) Failed() bool             { return s.failed }
func (s *sharedTB) Context() context.Context { return context.Background() }

func (s *sharedTB) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *sharedTB) TempDir() string {
	dir, err := os.MkdirTemp("", "cinch-shared-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *sharedTB) Log(args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(&s.log, args...)
}

func (s *sharedTB) Error(args ...any) {
	s.Log(args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = true
}

func (s *sharedTB) Logf(format string, args ...any)   { s.Log(fmt.Sprintf(format, args...)) }
func (s *sharedTB) Errorf(format string, args ...any) { s.Error(fmt.Sprintf(format, args...)) }
func (s *sharedTB) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }
func (s *sharedTB) Skipf(format string, args ...any)  { s.Skip(fmt.Sprintf(format, args...)) }

func (s *sharedTB) Fatal(args ...any) {
	s.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

func (s *sharedTB) Skip(args ...any) {
	s.skips = fmt.Sprint(args...)
	runtime.Goexit()
}
