package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cinch-layer/cinch/test/rig/tarantool/load"
)

// k6Summary is the summary that k6 exports. Times are in milliseconds.
type k6Summary struct {
	Metrics struct {
		Iterations struct {
			Count int     `json:"count"`
			Rate  float64 `json:"rate"`
		} `json:"iterations"`
		Write struct {
			Med, Max float64
			P95      float64 `json:"p(95)"`
			P99      float64 `json:"p(99)"`
		} `json:"write"`
	} `json:"metrics"`
}

// runK6 runs the load with k6, whose extension makes the same documents.
func (c *cluster) runK6(ctx context.Context) (r load.Result, err error) {
	script, summary := filepath.Join(c.work, "load.js"), filepath.Join(c.work, "summary.json")
	if err := os.WriteFile(script, []byte(k6Script), 0o600); err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, c.o.k6, "run", "--quiet", "--summary-export", summary,
		"--summary-trend-stats", "med,p(95),p(99),max", "--vus", fmt.Sprint(c.o.users), "--iterations", fmt.Sprint(c.o.writes), "--duration", c.o.duration.String(),
		"--env", "ADDR="+c.router, "--env", "SPACE="+space, "--env", fmt.Sprint("FIRST=", c.o.before), "--env", fmt.Sprint("SEED=", seed),
		script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return r, fmt.Errorf("k6: %w\n%s", err, out)
	}
	text, err := os.ReadFile(summary)
	if err != nil {
		return r, err
	}
	var s k6Summary
	if err := json.Unmarshal(text, &s); err != nil {
		return r, err
	}
	m := &s.Metrics
	ms := func(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }
	r = load.Result{Done: m.Iterations.Count, PerSec: m.Iterations.Rate, P50: ms(m.Write.Med), P95: ms(m.Write.P95), P99: ms(m.Write.P99), Max: ms(m.Write.Max)}
	if r.Done == 0 {
		return r, fmt.Errorf("k6 wrote nothing: %s", text)
	}
	r.Took = time.Duration(float64(r.Done) / m.Iterations.Rate * float64(time.Second))
	for n := range r.Done {
		r.Bytes += int64(len(c.documents(c.o.before + n)))
	}
	return r, nil
}

// k6Script uses the k6 extension in examples/tarantool/k6. Iterations count from 0 over all users, so that
// document numbers have no gaps.
const k6Script = `import tarantool from 'k6/x/tarantool'
import exec from 'k6/execution'
import { Trend } from 'k6/metrics'

const write = new Trend('write', true)
const user = tarantool.user(__ENV.ADDR, __ENV.SPACE, Number(__ENV.SEED))

export default function () {
  write.add(user.write(Number(__ENV.FIRST) + exec.scenario.iterationInTest))
}
`
