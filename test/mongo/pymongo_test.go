package mongo

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// pymongoFiles are those of PyMongo's tests in which bytes cross the wire.
var pymongoFiles = []string{
	"test_collection", "test_cursor", "test_bulk", "test_crud_unified", "test_client_bulk_write", "test_transactions",
	"test_transactions_unified", "test_gridfs", "test_gridfs_bucket", "test_gridfs_spec", "test_grid_file", "test_change_stream",
	"test_session", "test_sessions_unified", "test_run_command", "test_retryable_reads_unified", "test_retryable_writes",
	"test_retryable_writes_unified", "test_monitoring", "test_heartbeat_monitoring", "test_database",
}

// pymongoSuite runs files of PyMongo's source distribution.
func pymongoSuite(t *testing.T, addr, _, log string, names []string) map[string]string {
	t.Helper()
	const requirements = "python/suite.txt"
	python := testenv.Python(t, requirements)
	source := testenv.Cached(t, "pymongo-source", []string{requirements}, func(dir string) { unpackPyMongo(t, python, requirements, dir) })
	files := pymongoFiles
	if *suiteFiles != "" {
		files = strings.Split(*suiteFiles, ",")
	}
	args := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "junit_family=xunit1", "--rootdir", ".", "--junitxml", log + ".xml"}
	for _, f := range files {
		args = append(args, filepath.Join("test", f+".py"))
	}
	if len(names) > 0 {
		args = append(args, "-k", anyOf(names))
	}
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Dir = source
	host, port := hostPort(t, addr)
	cmd.Env = append(os.Environ(), "DB_IP="+host, "DB_PORT="+port)
	out, _ := cmd.CombinedOutput() // its exit code says that a test failed, which may be as it should
	if err := os.WriteFile(log, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return readJUnit(t, log+".xml")
}

// anyOf is pytest's expression for the functions of these tests.
func anyOf(names []string) string {
	var functions []string
	for _, n := range names {
		function, _, _ := strings.Cut(n[strings.LastIndexByte(n, '.')+1:], "[")
		functions = append(functions, function)
	}
	slices.Sort(functions)
	return strings.Join(slices.Compact(functions), " or ")
}

// unpackPyMongo fetches the source distribution of the version that is installed.
func unpackPyMongo(t *testing.T, python, requirements, dir string) {
	t.Helper()
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	testenv.Run(t, dir, python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", dir, first)
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("%v, %v", archives, err)
	}
	testenv.Run(t, dir, "tar", "xzf", archives[0], "--strip-components", "1")
}

// readJUnit returns what became of each test. An expected failure counts as passed.
func readJUnit(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		Type string `xml:"type,attr"`
	}
	var report struct {
		Cases []struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure []outcome `xml:"failure"`
			Error   []outcome `xml:"error"`
			Skipped []outcome `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	results := map[string]string{}
	for _, c := range report.Cases {
		result := "pass"
		switch {
		case len(c.Failure)+len(c.Error) > 0:
			result = "fail"
		case len(c.Skipped) > 0 && c.Skipped[0].Type != "pytest.xfail":
			result = "skip"
		}
		if name := c.Class + "." + c.Name; results[name] != "fail" {
			results[name] = result
		}
	}
	return results
}
