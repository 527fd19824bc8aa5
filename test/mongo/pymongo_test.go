package mongo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// pymongoFiles are those of PyMongo's test files that use a server.
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
	files := pymongoFiles
	if *suiteFiles != "" {
		files = strings.Split(*suiteFiles, ",")
	}
	args := []string{"-o", "addopts="}
	for _, f := range files {
		args = append(args, filepath.Join("test", f+".py"))
	}
	if len(names) > 0 {
		args = append(args, "-k", testenv.PytestNames(names))
	}
	host, port := hostPort(t, addr)
	env := append(os.Environ(), "DB_IP="+host, "DB_PORT="+port)
	return testenv.RunPytest(t, requirements, testenv.PythonSource(t, requirements), env, log, args...)
}
