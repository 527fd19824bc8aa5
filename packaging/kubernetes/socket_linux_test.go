package kubernetes

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// An application that runs as another user connects to its sidecar's socket, and probes are answered from the
// start, without a server behind the gateway. The directory is like a kubelet's emptyDir: its group is the
// pod's fsGroup, and files in it inherit that group.
func TestSocketOfASidecar(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("other users take root")
	}
	const gateway, group = 65532, 2000
	dir, open := testenv.OpenTempDir(t), testenv.OpenTempDir(t)
	file, program := filepath.Join(open, "cinch.yaml"), filepath.Join(open, "cinch")
	t.Cleanup(func() { _, _, _ = os.Remove(file), os.Remove(program), os.Remove(filepath.Join(dir, "redis.sock")) })
	if err := os.Chown(dir, 0, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(testenv.FreePort(t))
	rendered := render(t, "cinch", chart, "--values", "testdata/values/sidecar.yaml", "--set", "admin.tokenSecret=", "--set", "serviceMonitor.enabled=false",
		"--set", "admin.port="+port)
	config := strings.NewReplacer("/run/cinch/", dir+"/", "redis://redis:6379", "redis://127.0.0.1:1").Replace(configuration(t, rendered))
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	testenv.Run(t, dir, "install", "-m", "755", testenv.Cinch(t), program)
	cmd := exec.CommandContext(t.Context(), program, "serve", "--config", file)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: gateway, Gid: gateway, Groups: []uint32{group}}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	testenv.Eventually(t, "the startup probe is answered", func() bool { return asks("http://127.0.0.1:"+port+"/healthz") == http.StatusOK })
	if code := asks("http://127.0.0.1:" + port + "/metrics"); code != http.StatusUnauthorized {
		t.Errorf("/metrics without a token: %d", code)
	}
	info, err := os.Stat(filepath.Join(dir, "redis.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); stat.Gid != group || info.Mode().Perm()&0o060 != 0o060 {
		t.Errorf("the socket is of group %d, not %d, with mode %v", stat.Gid, group, info.Mode())
	}
}

func asks(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}
