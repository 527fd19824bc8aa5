package pack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// pods runs the workers of a Job as Kubernetes does: all at once, each with its index. One that was killed is started
// again with the same arguments.
type pods struct {
	t       *testing.T
	workers int
	args    []string
}

// start starts one worker. The returned function waits for its end, and fails unless it exits with 0 or was killed.
func (p *pods) start(index int) (cmd *exec.Cmd, wait func()) {
	p.t.Helper()
	args := append([]string{p.args[0]}, "--worker", fmt.Sprint("index/", p.workers), "--no-backoff")
	cmd = exec.Command(testenv.Cinch(p.t), append(args, p.args[1:]...)...)
	cmd.Env = append(os.Environ(), fmt.Sprint("JOB_COMPLETION_INDEX=", index))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(p.t, cmd.Start())
	return cmd, func() {
		p.t.Helper()
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() >= 0 {
			p.t.Fatalf("worker %d of cinch %s: %v\n%s", index, strings.Join(p.args, " "), err, out.String())
		}
	}
}

// run runs all workers to their end. kill is called while they run, with a function that kills a worker.
func (p *pods) run(kill func(worker func(index int))) time.Duration {
	p.t.Helper()
	began := time.Now()
	cmds, waits := make([]*exec.Cmd, p.workers), make([]func(), p.workers)
	for i := range p.workers {
		cmds[i], waits[i] = p.start(i)
	}
	if kill != nil {
		kill(func(index int) {
			must(p.t, cmds[index].Process.Kill())
			waits[index]()
			_, waits[index] = p.start(index)
		})
	}
	for _, wait := range waits {
		wait()
	}
	return time.Since(began)
}

// commandCalls returns how often a server has executed a command, in scripts too.
func commandCalls(t *testing.T, c *goredis.Client, command string) int {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(c.Info(t.Context(), "commandstats").Val())
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	must(t, err)
	return n
}

// digest returns the server's own digest of all keys, values and expiries.
func digest(t *testing.T, c *goredis.Client) string {
	t.Helper()
	d, err := c.Do(t.Context(), "debug", "digest").Text()
	must(t, err)
	return d
}

// stateFile returns the content of a worker's state file.
func stateFile(t *testing.T, dir, command string, index, workers int) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%s-%d-of-%d-*.json", command, index+1, workers)))
	must(t, err)
	if len(files) != 1 {
		return ""
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	return string(text)
}

// Four workers of a Job pack a server, and two of them are killed: one soon after its start, one after it has saved a
// position. Kubernetes starts these again. The server replaces each value exactly once, and the state files add up.
// Four workers unpack it, after which the server's digest is that of before.
func TestJobOfFourWorkers(t *testing.T) {
	t.Parallel()
	const values, workers = 12000, 4
	server := testenv.Redis(t, "--enable-debug-command", "yes")
	c := connect(t, server.Addr)
	fill(t, c, values, 0, 400)
	before := digest(t, c)
	dir := filepath.Join(t.TempDir(), "state")
	must(t, c.ConfigResetStat(t.Context()).Err())

	slow := []string{"--keys-per-second", "250"} // a worker has 3,000 keys, and saves its position every 5 s
	pack := pods{t, workers, append([]string{"pack", server.URL(), plainRule, "--state", dir + "/"}, slow...)}
	pack.run(func(kill func(int)) {
		testenv.Eventually(t, "values are compressed", func() bool { return commandCalls(t, c, "set") > 0 })
		kill(1)
		testenv.Eventually(t, "a position was saved", func() bool {
			return regexp.MustCompile(`"cursor": "\d+",\s*"done": false`).MatchString(stateFile(t, dir, "pack", 2, workers))
		})
		kill(2)
	})
	if n := commandCalls(t, c, "set"); n != values {
		t.Errorf("the server replaced %d values, not %d", n, values)
	}
	expect(t, 0, []string{"verify", server.URL()}, fmt.Sprintf("opens: zstd %d", values))
	for i := range workers {
		if text := stateFile(t, dir, "pack", i, workers); !strings.Contains(text, `"done": true`) {
			t.Errorf("the state of worker %d is %s", i, text)
		}
	}

	type counts struct {
		Done     float64
		Replaced int
	}
	var progress struct {
		Runs []struct {
			Run     string
			Workers []counts
			Total   counts
		}
	}
	must(t, json.Unmarshal([]byte(expect(t, 0, []string{"report", "--pack-state", dir, "--json"}).out), &progress))
	if len(progress.Runs) != 1 || len(progress.Runs[0].Workers) != workers || progress.Runs[0].Run != "pack tcp://"+server.Addr {
		t.Fatalf("%+v", progress)
	}
	total := progress.Runs[0].Total
	// A killed worker's counts since its last save are missing.
	if total.Done < 0.999 || total.Replaced > values || total.Replaced < values/2 {
		t.Errorf("%+v", total)
	}
	t.Logf("the server counted %d replaced values, the state files %d", values, total.Replaced)
	expect(t, 0, []string{"top", "--pack-state", dir}, "pack tcp://"+server.Addr, "1/4 100%", "total 100%")

	must(t, c.ConfigResetStat(t.Context()).Err())
	unpack := pods{t, workers, []string{"unpack", server.URL(), "--state", dir + "/"}}
	unpack.run(nil)
	if n := commandCalls(t, c, "set"); n != values {
		t.Errorf("the server replaced %d values, not %d", n, values)
	}
	if after := digest(t, c); after != before {
		t.Errorf("the digest after unpack is %s, before pack it was %s", after, before)
	}
	if e := expect(t, 0, []string{"report", "--pack-state", dir}); !e.prints("unpack tcp://") || !strings.HasPrefix(e.out, "pack tcp://") {
		t.Errorf("%s", e.out)
	}
}

// Workers of unpack that run one after another, as with parallelism: 1, each expect the memory that is still needed on
// the server. The last one does not count again what the others have decompressed.
func TestJobOfOneWorkerAtATime(t *testing.T) {
	t.Parallel()
	const workers = 4
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 8000, 0, 1000)
	plain := usedMemory(t, c)
	expect(t, 0, []string{"pack", server.URL(), plainRule})
	packed := usedMemory(t, c)
	if packed > plain/2 {
		t.Fatalf("%d bytes packed, %d plain", packed, plain)
	}
	must(t, c.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(plain+plain/5)).Err())
	for i := range workers {
		expect(t, 0, []string{"unpack", server.URL(), "--worker", fmt.Sprintf("%d/%d", i+1, workers)})
	}
	expect(t, 0, []string{"verify", server.URL()}, "left: plain 8000")
}

// usedMemory returns the used_memory of a server.
func usedMemory(t *testing.T, c *goredis.Client) int {
	t.Helper()
	m := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(c.Info(t.Context(), "memory").Val())
	if m == nil {
		t.Fatal("no used_memory")
	}
	n, err := strconv.Atoi(m[1])
	must(t, err)
	return n
}

// With a worker for each primary of a cluster, workers don't read the primaries of others, except for one where the
// ranges of slots are rounded differently. With more or fewer workers, too, each value is packed once.
func TestJobOfACluster(t *testing.T) {
	t.Parallel()
	nodes := testenv.Cluster(t, 3, 0)
	keys := newClusterKeys(t, nodes)
	url := "redis+cluster://" + nodes[0].Addr
	sets := func() (n int) {
		for _, node := range nodes {
			c := connect(t, node.Addr)
			n += commandCalls(t, c, "set")
			must(t, c.ConfigResetStat(t.Context()).Err())
		}
		return n
	}
	for _, workers := range []int{3, 2, 5} {
		sets()
		dir := t.TempDir()
		pack := pods{t, workers, []string{"pack", url, plainRule, "--state", dir}}
		pack.run(nil)
		if n := sets(); n != clusterKeyCount {
			t.Errorf("%d workers replaced %d values, not %d", workers, n, clusterKeyCount)
		}
		walks := 0
		for i := range workers {
			walks += strings.Count(stateFile(t, dir, "pack", i, workers), `"run_id"`)
		}
		if workers == 3 && walks > 4 || walks < workers {
			t.Errorf("%d workers have walked %d primaries", workers, walks)
		}
		keys.check(fmt.Sprint(workers, " workers"), true)
		unpack := pods{t, workers, []string{"unpack", url}}
		unpack.run(nil)
		keys.check(fmt.Sprint(workers, " workers, unpacked"), false)
	}
}
