package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/proc"
)

// pass is one iteration over all keys by one process.
type pass struct {
	took        time.Duration
	cpu, server time.Duration // of the process; of the server meanwhile
	peak        int64         // bytes, VmHWM
	report      packReport    // of the packer
}

// packReport is the packer's final report.
type packReport struct {
	Keys     int `json:"keys"`
	Replaced int `json:"replaced"`
	Problems int `json:"problems"`
	Before   int `json:"allocated_bytes_before"`
	After    int `json:"allocated_bytes_after"`
}

func (r *packReport) change() string {
	if r.Before == 0 {
		return "nothing gains"
	}
	return fmt.Sprintf("%+.1f%%", 100*(float64(r.After)/float64(r.Before)-1))
}

// row holds all passes with one setting.
type row struct {
	setting string
	plain   []pass // as many concurrent pages as the packer
	single  []pass // one page at a time
	packer  []pass
}

// measure runs both forms of plain and the packer in turn; every second run reverses the order.
func (o *options) measure(s *rig.Process, setting string) (row, error) {
	r := row{setting: setting}
	for i := range o.runs {
		if err := o.fill(s); err != nil {
			return r, err
		}
		plain := func(to *[]pass, parallel int) error {
			return o.pass(s, to, o.self, "--plain", s.Addr, "--parallel", fmt.Sprint(parallel))
		}
		order := []func() error{
			func() error { return plain(&r.plain, o.parallel) },
			func() error { return plain(&r.single, 1) },
			func() error { return o.pack(s, setting, &r.packer) },
		}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, f := range order {
			if err := f(); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func (o *options) pack(s *rig.Process, setting string, to *[]pass) error {
	rule, withDict := strings.CutSuffix(setting, "+dict")
	dictionaries := ""
	rule = "setting: " + rule
	if withDict {
		dictionaries, rule = "dictionaries: [{name: trained, file: d.dict}]\n", rule+", dictionary: trained"
	}
	file := filepath.Join(o.work, "cinch.yaml")
	text := fmt.Sprintf("%sgateways:\n  - {name: bench, protocol: redis, listen: 127.0.0.1:0, upstream: 'redis://%s', rules: [{%s}]}\n",
		dictionaries, s.Addr, rule)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if err := o.pass(s, to, o.cinch, "pack", "--config", file, "--parallel", fmt.Sprint(o.parallel), "--no-backoff", "--json"); err != nil {
		return err
	}
	if r := (*to)[len(*to)-1].report; r.Keys < o.keys || r.Problems > 0 {
		return fmt.Errorf("the packer visited %d of %d keys and had %d problems", r.Keys, o.keys, r.Problems)
	}
	return nil
}

// pass runs a program until it exits.
func (o *options) pass(s *rig.Process, to *[]pass, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	before, err := s.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var p pass
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-time.After(50 * time.Millisecond):
			held, _ := proc.Peak(cmd.Process.Pid) // fails once it has exited
			p.peak = max(p.peak, held)
		}
	}
	p.took = time.Since(began)
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, errs.String())
	}
	after, err := s.CPU()
	if err != nil {
		return err
	}
	p.cpu, p.server = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), after-before
	for line := range strings.Lines(out.String()) {
		var e struct{ Report packReport }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		p.report = e.Report
	}
	*to = append(*to, p)
	return nil
}

func median[T int64 | float64 | time.Duration](of []pass, get func(p *pass) T) T {
	var all []T
	for i := range of {
		all = append(all, get(&of[i]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func took(p *pass) time.Duration { return p.took }

// tableOf has one line per setting. Rates are computed from the medians; the ratios of single runs are in
// brackets.
func tableOf(o *options, rows []row) string {
	var b strings.Builder
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(&b, "%d keys, %d pages in work, %d runs each in turn, medians; load average at the end %s.\n\n", o.keys, o.parallel, o.runs,
		strings.Join(strings.Fields(string(load))[:2], " "))
	b.WriteString("| setting | plain, keys/s | plain, a page at a time | packer, keys/s | packer / plain | packer / plain, a page at a time | CPU µs a key: plain, its server | packer, its server | packed | allocated | peak MiB |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	perKey := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/float64(o.keys)) }
	for _, r := range rows {
		rate := func(p []pass) float64 { return float64(o.keys) / median(p, took).Seconds() }
		each := func(plain []pass) string {
			var all []string
			for i := range plain {
				all = append(all, fmt.Sprintf("%.2f", plain[i].took.Seconds()/r.packer[i].took.Seconds()))
			}
			return fmt.Sprintf("**%.2f** (%s)", rate(r.packer)/rate(plain), strings.Join(all, " "))
		}
		cpu := func(p *pass) time.Duration { return p.cpu }
		server := func(p *pass) time.Duration { return p.server }
		last := r.packer[len(r.packer)-1].report
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %s | %s | %s, %s | %s, %s | %d%% | %s | %d |\n",
			r.setting, rate(r.plain), rate(r.single), rate(r.packer), each(r.plain), each(r.single),
			perKey(median(r.plain, cpu)), perKey(median(r.plain, server)), perKey(median(r.packer, cpu)), perKey(median(r.packer, server)),
			100*last.Replaced/max(o.keys, 1), last.change(),
			median(r.packer, func(p *pass) int64 { return p.peak })>>20)
	}
	return b.String()
}
