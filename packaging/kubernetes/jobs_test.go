package kubernetes

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// jobs returns the rendered Jobs by the beginning of their names.
func jobs(t testing.TB, args ...string) map[string]workload {
	t.Helper()
	found := map[string]workload{}
	for _, w := range workloads(t, render(t, "cinch", chart, append([]string{"--values", "testdata/values/jobs.yaml"}, args...)...)) {
		if m := regexp.MustCompile(`^(.*)-[0-9a-f]{8}$`).FindStringSubmatch(w.name()); m != nil && w.kind() == "Job" {
			found[m[1]] = w
		}
	}
	return found
}

// Each command and gateway has a Job. Its limits are divided by the workers that run at a time, and its pods'
// names fit a DNS label.
func TestJobs(t *testing.T) {
	all := jobs(t)
	for name, want := range map[string]struct {
		completions, parallelism int
		args                     []string
	}{
		"cinch-pack-fleet":       {500, 100, []string{"--gateway=fleet", "--worker=index/500", "--keys-per-second=10000", "--bytes-per-second=42949672", "--state=/state/", "--skip-idle-below=10m"}},
		"cinch-pack-cache-1-a":   {500, 100, []string{"--gateway=Cache_1.a", "--worker=index/500", "--keys-per-second=10000", "--bytes-per-second=42949672", "--state=/state/", "--skip-idle-below=10m"}},
		"cinch-verify-cache-1-a": {1, 1, []string{"--gateway=Cache_1.a", "--worker=index/1"}},
		"cinch-unpack-shard":     {4, 4, []string{"--gateway=shard", "--worker=index/4", "--state=/state/"}},
	} {
		w, ok := all[name]
		if !ok {
			t.Errorf("there is no Job %s", name)
			continue
		}
		var args []string
		for _, a := range list(w.gateway(), "args")[2:] { // after the command and --config
			args = append(args, a.(string))
		}
		if number(w.object, "spec", "completions") != want.completions || number(w.object, "spec", "parallelism") != want.parallelism || !slices.Equal(args, want.args) {
			t.Errorf("%s has %v completions and args %v", name, at(w.object, "spec", "completions"), args)
		}
		if len(w.name())+len("-499") > 63 {
			t.Errorf("the pods of %s have names that are too long", w.name())
		}
		if text(w.pod, "spec", "restartPolicy") != "Never" {
			t.Errorf("%s: a pod failure policy needs restartPolicy Never", name)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d Jobs", len(all))
	}
}

// The policies of Jobs name each exit code once, in ascending order, and those that docs/PACK.md lists as final.
func TestJobExitCodes(t *testing.T) {
	for name, w := range jobs(t) {
		actions := map[int]string{}
		for _, rule := range list(w.object, "spec", "podFailurePolicy", "rules") {
			codes := list(rule, "onExitCodes", "values")
			for i, code := range codes {
				n := code.(int)
				if actions[n] != "" || i > 0 && n <= codes[i-1].(int) {
					t.Errorf("%s: exit codes %v", name, codes)
				}
				actions[n] = text(rule, "action")
			}
		}
		want := map[int]string{130: "Ignore", 2: "FailJob", 11: "FailJob", 4: "FailJob", 12: "FailJob", 3: "FailIndex"}
		if strings.Contains(name, "verify") {
			want = map[int]string{130: "Ignore", 2: "FailJob", 11: "FailJob", 4: "FailIndex", 12: "FailIndex"}
		}
		for code := range 256 {
			if actions[code] != want[code] {
				t.Errorf("%s: after exit code %d it does %q, not %q", name, code, actions[code], want[code])
			}
		}
	}
}

// A Job's fields can't be changed, so a change of them changes its name.
func TestJobNames(t *testing.T) {
	name := func(args ...string) string { return jobs(t, args...)["cinch-pack-fleet"].name() }
	first := name()
	if name() != first || name("--set", "replicas=5") != first {
		t.Error("the name changes without need")
	}
	for _, change := range []string{"pack.workers=3", "pack.keysPerSecond=1", "jobs.resources.limits.memory=2Gi", "image.tag=v9", "drain.graceSeconds=3"} {
		if name("--set", change) == first {
			t.Errorf("the name stays with %s", change)
		}
	}
}

// A claim's name may look like a number.
func TestJobClaim(t *testing.T) {
	for _, w := range jobs(t, "--set-string", "jobs.stateClaim=12345", "--set", "verify.enabled=false") {
		volumes := list(w.pod, "spec", "volumes")
		if claim := at(volumes[len(volumes)-1], "persistentVolumeClaim", "claimName"); claim != "12345" {
			t.Errorf("%s has the claim %v", w.name(), claim)
		}
	}
}

// Jobs that can't do what is wanted are refused.
func TestJobsRefused(t *testing.T) {
	for set, says := range map[string]string{
		"pack.gateways={none}":     "config.gateways has no such gateway",
		"pack.gateways={far}":      "config.gateways has no such gateway",
		"pack.gateways={shard}":    "has enabled: false",
		"unpack.gateways={fleet}":  "would compress again",
		"pack.workers=0":           "pack",
		"pack.bytesPerSecond=fast": "bytesPerSecond",
		"pack.keysPerSeconds=1":    "keysPerSeconds",
		"jobs.stateClam=x":         "stateClam",
	} {
		if _, err := helm(t, "template", "cinch", chart, "--kube-version", kubeVersion, "--values", "testdata/values/jobs.yaml", "--set", set); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want an error that says %q: %v", set, says, err)
		}
	}
}

// The program takes the arguments of the Jobs, up to connecting to the store.
func TestJobArguments(t *testing.T) {
	dir := secrets(t)
	config := dir + "/cinch.yaml"
	writeFile(t, config, strings.NewReplacer("redis-0,redis-1", "127.0.0.1:1", "redis:6379", "127.0.0.1:1", "tarantool://tarantool", "tarantool://127.0.0.1:1").
		Replace(configuration(t, render(t, "cinch", chart, "--values", "testdata/values/jobs.yaml"))))
	writeFile(t, dir+"/secrets/passwords/passwords", "127.0.0.1:1:cinch:secret\n")
	for name, w := range jobs(t) {
		var args []string
		for _, a := range list(w.gateway(), "args") {
			args = append(args, strings.NewReplacer("/etc/cinch/cinch.yaml", config, "/state/", dir+"/state/").Replace(a.(string)))
		}
		cmd := exec.Command(testenv.Cinch(t), args...)
		cmd.Env = []string{"CINCH_PASSWORD_FILE=" + dir + "/secrets/passwords/passwords", "JOB_COMPLETION_INDEX=0"}
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 10 { // the store can't be reached
			t.Errorf("%s: %d %s", name, cmd.ProcessState.ExitCode(), out)
		}
	}
}
