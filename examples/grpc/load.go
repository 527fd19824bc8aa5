package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

const (
	capacityTime = 4 * time.Second
	rateTime     = 4 * time.Second
	atOnce       = 8
)

// ladder is a size of requests with the rates, in pushes a second, at which they are sent.
type ladder struct {
	kind  payloadKind
	rates []float64
}

// Consecutive pushes at a rate send different requests, and repeat one only after a long time: gateways
// compress only once what they see several times within a moment, and that must not affect the results.
var ladders = []ladder{
	{payloadKind{2000, 120}, []float64{5, 10, 20}},
	{payloadKind{50, 1600}, []float64{100, 200, 400}},
}

// The crowd is a thousand concurrent calls to receivers that take a second for each.
var (
	crowdKind  = payloadKind{200, 600}
	crowdDelay = time.Second
)

const crowdPushes = 334 // concurrent pushes of three calls each

// row holds one variant at one rate; rate 0 means as fast as possible.
type row struct {
	outcome
	rate float64
}

func (o row) perSecond() float64 { return float64(o.Sent.Pushes) / o.Sent.Wall.Seconds() }

func (r *runner) measureLoad(out string) error {
	var b strings.Builder
	writeLoadHead(&b)
	for _, l := range ladders {
		capacity, rows, err := r.climb(l)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n## %d series a request (%.0f KB)\n", l.kind.series, float64(r.payloads[l.kind].bytes)/float64(l.kind.requests)/1e3)
		writeCapacity(&b, capacity)
		writeRates(&b, rows)
		writeAdded(&b, capacity, rows)
	}
	if err := r.writeCrowd(&b); err != nil {
		return err
	}
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

// climb measures the capacity of each variant, and then all variants at the same rates.
func (r *runner) climb(l ladder) (capacity, rows []row, err error) {
	for _, v := range variants {
		o, err := r.run(v, l.kind, 0, "-duration", capacityTime.String(), "-at-once", fmt.Sprint(atOnce))
		if err != nil {
			return nil, nil, err
		}
		capacity = append(capacity, row{o, 0})
		r.progress(row{o, 0})
	}
	for _, rate := range l.rates {
		for _, v := range variants {
			o, err := r.run(v, l.kind, 0, "-rate", fmt.Sprint(rate), "-duration", rateTime.String())
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, row{o, rate})
			r.progress(row{o, rate})
		}
	}
	return capacity, rows, nil
}

func (r *runner) progress(o row) {
	fmt.Fprintf(os.Stderr, "%-18s rate %4.0f: %6.1f pushes/s, p99 %7.2f ms, %d failed %s\n",
		o.Variant, o.rate, o.perSecond(), ms(o.Sent.P99), o.Sent.Failed, o.Sent.Error)
}

func writeLoadHead(b *strings.Builder) {
	load, _ := os.ReadFile("/proc/loadavg")
	revision, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	fmt.Fprintf(b, `# Remote-write between zones at rising load

`+"`go run ./examples/grpc --load`"+`, %s, %d CPUs (%s/%s), load average %s at the start, revision %s.

A distributor sends each request to three receivers at once, by unary calls with a deadline of 2 s. With gateways there is
one beside the distributor (three listeners) and one beside each receiver. **All of it runs on this one machine**: the
distributor, three receivers, four gateways and the counting hops share its CPUs, so latencies at high rates are those
of a crowded machine, and the rate at which it is full is not that of a gateway alone.

CPU is user and system time in ms a push, that is for three copies; gateways are all four together. Memory is the peak
of the process with the most, in MB; the distributor's is without the requests that it holds ready. p50 and p99 are of
single calls. Cross-zone KB are bytes of a push to two zones, both directions, counted on the wire.
`, time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		strings.Join(strings.Fields(string(load))[:1], ""), strings.TrimSpace(string(revision)))
}

func writeCapacity(b *strings.Builder, capacity []row) {
	fmt.Fprintf(b, "\n### At most\n\n%d pushes at a time for %v, as fast as they go.\n\n", atOnce, capacityTime)
	b.WriteString("| | pushes/s | MB/s in | p50 ms | p99 ms | failed | memory: distributor | gateway | receiver |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, o := range capacity {
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %.2f | %.2f | %d | %s |\n", o.Variant, o.perSecond(),
			mb(o.Sent.Bytes)/o.Sent.Wall.Seconds(), ms(o.Sent.P50), ms(o.Sent.P99), o.Sent.Failed, o.memories())
	}
}

func (o row) memories() string {
	return fmt.Sprintf("%.0f | %s | %.0f", mb(o.Distributor.Memory), o.ofGateways("%.0f", mb(o.Gateways.Memory)), mb(o.Receivers.Memory))
}

// ofGateways formats a value, or returns "" for variants without gateways.
func (o row) ofGateways(format string, value float64) string {
	if o.Gateways.Memory == 0 {
		return ""
	}
	return fmt.Sprintf(format, value)
}

func writeRates(b *strings.Builder, rows []row) {
	b.WriteString("\n### At the same rates\n\n")
	b.WriteString("| pushes/s | | cross-zone KB | CPU: distributor | gateways | receivers | all | p50 ms | p99 ms | failed | memory: distributor | gateway | receiver |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, o := range rows {
		n := float64(o.Sent.Pushes)
		fmt.Fprintf(b, "| %.0f | %s | %.1f | %.2f | %s | %.2f | %.2f | %.2f | %.2f | %d | %s |\n", o.rate, o.Variant,
			float64(o.CrossZone)/n/1e3, ms(o.Distributor.CPU)/n, o.ofGateways("%.2f", ms(o.Gateways.CPU)/n), ms(o.Receivers.CPU)/n,
			ms(o.Distributor.CPU+o.Gateways.CPU+o.Receivers.CPU)/n, ms(o.Sent.P50), ms(o.Sent.P99), o.Sent.Failed, o.memories())
	}
}

// writeAdded compares each pair of gateways with the same compression in process, at rates below half of the
// variant's capacity.
func writeAdded(b *strings.Builder, capacity, rows []row) {
	b.WriteString("\n### What two gateways add below half their capacity, in ms\n\n")
	b.WriteString("| pushes/s | | of capacity | p50 to the same in process | p99 | p50 to nothing at all | p99 |\n|---|---|---|---|---|---|---|\n")
	for i, o := range rows {
		v := i % len(variants)
		if variants[v].setting == "" {
			continue
		}
		if share := o.rate / capacity[v].perSecond(); share < 0.5 {
			same, none := rows[i-len(variants)/2], rows[i-v]
			fmt.Fprintf(b, "| %.0f | %s | %.0f %% | %.2f | %.2f | %.2f | %.2f |\n", o.rate, o.Variant, 100*share,
				ms(o.Sent.P50-same.Sent.P50), ms(o.Sent.P99-same.Sent.P99), ms(o.Sent.P50-none.Sent.P50), ms(o.Sent.P99-none.Sent.P99))
		}
	}
}

// writeCrowd measures memory with a thousand calls in flight.
func (r *runner) writeCrowd(b *strings.Builder) error {
	fmt.Fprintf(b, "\n## A thousand streams\n\n%d pushes at a time to three receivers that take %v for each, %d series a request, 6 s. Streams that nobody\n"+
		"reads are a test: `go test ./test/grpc -run SlowReaders -v`.\n\n", crowdPushes, crowdDelay, crowdKind.series)
	b.WriteString("| | pushes/s | p50 ms | p99 ms | failed | memory: distributor | gateway | receiver |\n|---|---|---|---|---|---|---|---|\n")
	for _, i := range []int{0, 5, 7, 8} {
		o, err := r.run(variants[i], crowdKind, crowdDelay, "-duration", "6s", "-at-once", fmt.Sprint(crowdPushes))
		if err != nil {
			return err
		}
		c := row{o, 0}
		r.progress(c)
		fmt.Fprintf(b, "| %s | %.1f | %.2f | %.2f | %d | %s |\n", o.Variant, c.perSecond(), ms(o.Sent.P50), ms(o.Sent.P99), o.Sent.Failed, c.memories())
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
