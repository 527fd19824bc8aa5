package docs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	shell  = regexp.MustCompile("(?ms)^```bash\n(.*?)^```")
	before = regexp.MustCompile(`cinch_value_raw_bytes_total\{codec="zstd".*\} (\S+)`)
	after  = regexp.MustCompile(`cinch_value_stored_bytes_total\{codec="zstd".*\} (\S+)`)
)

// The README's commands for a first saving work as written, except for the ports.
func TestReadmeFirstSaving(t *testing.T) {
	_, section, _ := strings.Cut(pages(t)["README.md"], "## A first saving in thirty seconds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := shell.FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 || !strings.Contains(section, "```\ncinch serve\n```") {
		t.Fatalf("the section is not what it was:\n%s", section)
	}
	for _, tool := range []string{"bash", "awk", "curl"} {
		testenv.Program(t, tool)
	}
	dir := t.TempDir()
	if err := os.Symlink(testenv.Cinch(t), filepath.Join(dir, "cinch")); err != nil {
		t.Fatal(err)
	}
	listen, admin := testenv.FreePort(t), testenv.FreePort(t)
	serve := exec.Command(filepath.Join(dir, "cinch"), "serve", "--listen", local(listen), "--admin", local(admin))
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	defer func() {
		_ = serve.Process.Kill()
		<-ended
	}()
	for !testenv.AnswersPing("tcp", local(listen)) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("cinch serve has ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	ports := strings.NewReplacer("/6380", fmt.Sprintf("/%d", listen), ":9470", fmt.Sprintf(":%d", admin))
	run := exec.Command("bash", "-c", "set -e\n"+blocks[0][1]+ports.Replace(blocks[1][1]))
	run.Dir, run.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"5000 +OK", `{"id":42,`, "SAVES"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if raw, stored := number(t, before, out), number(t, after, out); stored > 0.6*raw {
		t.Errorf("%v of %v bytes are stored", stored, raw)
	}
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func number(t *testing.T, of *regexp.Regexp, out []byte) float64 {
	t.Helper()
	m := of.FindSubmatch(out)
	if m == nil {
		t.Fatalf("no %s in\n%s", of, out)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
