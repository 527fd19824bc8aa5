package mongo

import (
	"os"
	"os/exec"
	"path/filepath"
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
func pymongoSuite(t *testing.T, addr, _, log string, names []string) testenv.Outcomes {
	t.Helper()
	const requirements = "python/suite.txt"
	python := testenv.Python(t, requirements)
	source := testenv.PythonSource(t, requirements)
	files := pymongoFiles
	if *suiteFiles != "" {
		files = strings.Split(*suiteFiles, ",")
	}
	args := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "junit_family=xunit1", "--rootdir", ".", "--junitxml", log + ".xml"}
	for _, f := range files {
		args = append(args, filepath.Join("test", f+".py"))
	}
	if len(names) > 0 {
		args = append(args, "-k", testenv.PytestNames(names))
	}
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Dir = source
	host, port := hostPort(t, addr)
	cmd.Env = append(os.Environ(), "DB_IP="+host, "DB_PORT="+port)
	out, _ := cmd.CombinedOutput() // its exit code says that a test failed, which may be as it should
	if err := os.WriteFile(log, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return testenv.ReadJUnit(t, log+".xml")
}
