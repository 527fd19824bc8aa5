package postgres

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	source    = flag.String("source", "", "PostgreSQL's source tree, for its own tests; none: they are skipped. Run test/postgres/regress")
	regressed = flag.String("tests", "", "which of the regression tests and isolation specs, with commas and in their order; none: all")
)

// suite is PostgreSQL's source with the programs that its tests need, in a directory that servers can read
// and write.
type suite struct {
	source, dir string
}

func newSuite(t *testing.T) suite {
	t.Helper()
	if *source == "" {
		t.Skip("takes its time, and PostgreSQL's source; run test/postgres/regress")
	}
	dir, err := os.MkdirTemp("", "cinch-pg-suite-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // the servers run as another user
		t.Fatal(err)
	}
	return suite{source: *source, dir: dir}
}

func pgConfig(t *testing.T, what string) string {
	t.Helper()
	return strings.TrimSpace(testenv.Command(t, testenv.Program(t, "pg_config"), "--"+what))
}

// compile compiles sources in a directory of the source tree to a file.
func (s suite) compile(t *testing.T, under, name string, args ...string) (file string) {
	t.Helper()
	file = filepath.Join(s.dir, name)
	server, client := pgConfig(t, "includedir-server"), pgConfig(t, "includedir")
	all := append([]string{"-O1", "-w", "-I.", "-I" + server, "-I" + client, "-I" + client + "/internal", "-o", file}, args...)
	testenv.Run(t, filepath.Join(s.source, "src", "test", under), "gcc", all...)
	return file
}

// program compiles a program with the libraries that libpq's own tests need.
func (s suite) program(t *testing.T, under, name string, sources ...string) string {
	t.Helper()
	libraries := filepath.Join(filepath.Dir(pgConfig(t, "pkglibdir")), "lib")
	return s.compile(t, under, name, append(sources, "-L"+libraries, "-lpq", "-lpgcommon", "-lpgport", "-lm")...)
}

// names returns the tests of the flag, or else those of a schedule of the source tree.
func (s suite) names(t *testing.T, schedule string) (names []string) {
	t.Helper()
	if *regressed != "" {
		return strings.Split(*regressed, ",")
	}
	text, err := os.ReadFile(filepath.Join(s.source, "src", "test", schedule))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(line, "test:"); ok {
			names = append(names, strings.Fields(list)...)
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s has no tests", schedule)
	}
	return names
}

// regress runs the regression tests at a server, in a directory named after way, and returns the output of
// each.
func (s suite) regress(t *testing.T, way, port string) map[string]string {
	t.Helper()
	under := filepath.Join(s.source, "src", "test", "regress")
	out := filepath.Join(s.dir, way)
	for _, dir := range []string{out, out + "/results", out + "/testtablespace"} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil { // servers write there too
			t.Fatal(err)
		}
	}
	args := []string{
		"--host=127.0.0.1", "--port=" + port, "--user=postgres", "--dlpath=" + s.dir, "--bindir=" + pgConfig(t, "bindir"), "--inputdir=" + under, "--outputdir=" + out,
	}
	if *regressed == "" {
		args = append(args, "--schedule="+filepath.Join(under, "parallel_schedule"))
	} else {
		args = append(args, strings.Split(*regressed, ",")...)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(pgConfig(t, "pkglibdir"), "pgxs", "src", "test", "regress", "pg_regress"), args...)
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	printed, _ := cmd.CombinedOutput() // tests with unexpected output fail when run directly, too
	got := readDir(t, filepath.Join(out, "results"), ".out")
	t.Logf("%s: %d tests, %d as expected", way, len(got), strings.Count(string(printed), "... ok"))
	if len(got) != len(s.names(t, "regress/parallel_schedule")) {
		t.Fatalf("%s:\n%s", way, printed)
	}
	return got
}

func readDir(t *testing.T, dir, suffix string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(name), suffix)] = string(text)
	}
	return out
}

// alike reports an error for each output that differs through the mirror.
func alike(t *testing.T, direct, through map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(direct)) {
		if direct[name] != through[name] {
			t.Errorf("%s prints something else through the mirror: %s", name, firstDifference(direct[name], through[name]))
		}
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "line " + strings.Join(a[max(0, i-3):i+1], "\n    ") + "\nis\n    " + strings.Join(b[i:min(len(b), i+5)], "\n    ")
		}
	}
	return "one is longer"
}

// PostgreSQL's regression tests, all of its schedule: each prints the same through the mirror as directly,
// and the targets agree.
func TestRegression(t *testing.T) {
	s := newSuite(t)
	s.compile(t, "regress", "regress.so", "-fPIC", "-shared", "regress.c")
	const prepared = "max_prepared_transactions=10"
	direct := s.regress(t, "direct", testenv.Postgres(t, prepared).Port)
	all := startServers(t, prepared)
	m := all.mirror(t)
	alike(t, direct, s.regress(t, "mirror", m.port))
	m.settle(t, 50)
	all.sameTables(t, "regression")
}

// tables computes a checksum per table that does not depend on the order of rows.
const tables = `SELECT format('SELECT %L, count(*), sum(hashtextextended(t::text, 0)) FROM %s AS t', c.oid::regclass, c.oid::regclass)
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'r' AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY c.oid::regclass::text \gexec`

// sameTables compares all tables of a database.
func (s servers) sameTables(t *testing.T, database string) {
	t.Helper()
	read := func(of *testenv.SQLServer) []string {
		cmd := exec.CommandContext(t.Context(), "psql", "-XAtq", "-h", "127.0.0.1", "-p", of.Port, "-U", "postgres", database)
		cmd.Stdin = strings.NewReader(tables)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	production, control, test := read(s.production), read(s.control), read(s.test)
	missing := func(from, in []string) (out []string) {
		for _, line := range from {
			if !slices.Contains(in, line) {
				out = append(out, line)
			}
		}
		return out
	}
	for _, line := range append(missing(production, control), missing(control, test)...) {
		t.Logf("differs by time, or in what it says of files or of large objects: %s", line)
	}
	if n := len(missing(control, test)) + len(missing(production, control)); n > len(production)/20 {
		t.Errorf("%d of %d tables differ", n, len(production))
	}
	t.Logf("%d tables", len(production))
}

// PostgreSQL's isolation tests, with sessions that wait for each other and deadlocks, give the same results
// through the mirror.
func TestIsolation(t *testing.T) {
	s := newSuite(t)
	tester := s.program(t, "isolation", "isolationtester", "isolationtester.c", "specparse.c")
	specs := func(port string) map[string]string {
		testenv.Command(t, "createdb", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "isolation")
		out := map[string]string{}
		for _, name := range s.names(t, "isolation/isolation_schedule") {
			spec, err := os.Open(filepath.Join(s.source, "src", "test", "isolation", "specs", name+".spec"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), tester, "host=127.0.0.1 user=postgres dbname=isolation port="+port)
			cmd.Stdin = spec
			printed, err := cmd.CombinedOutput()
			out[name] = string(printed)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_ = spec.Close()
		}
		return out
	}
	const prepared = "max_prepared_transactions=10"
	direct := specs(testenv.Postgres(t, prepared).Port)
	m := startServers(t, prepared).mirror(t)
	alike(t, direct, specs(m.port))
	m.settle(t, 20)
}

// libpq's pipeline tests have the same protocol traces through the mirror as directly.
func TestPipelines(t *testing.T) {
	s := newSuite(t)
	const under = "modules/libpq_pipeline"
	program := s.program(t, under, "libpq_pipeline", "libpq_pipeline.c")
	names := strings.Fields(testenv.Command(t, program, "tests"))
	traces := func(port string) map[string]string {
		out := map[string]string{}
		for _, name := range names {
			trace := filepath.Join(t.TempDir(), "trace")
			args := []string{"-r", "1000", "-t", trace, name, "host=127.0.0.1 user=postgres dbname=postgres port=" + port}
			if printed, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, printed)
			}
			text, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(s.source, "src", "test", under, "traces", name+".trace")); err == nil {
				out[name] = string(text) // other traces depend on the size of socket buffers
			}
		}
		return out
	}
	direct := traces(testenv.Postgres(t).Port)
	// One test sends without a Sync until the sockets are full; the amount depends on how fast the server
	// reads.
	m := startServers(t).mirror(t, "--memory", "1GiB")
	alike(t, direct, traces(m.port))
	m.settle(t, 20)
}
