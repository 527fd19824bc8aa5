package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// sent holds the results that a distributor prints. Latencies are of single calls.
type sent struct {
	Pushes int64         `json:"pushes"`
	Failed int64         `json:"failed_calls"`
	Error  string        `json:"error,omitempty"`
	Bytes  int64         `json:"bytes"` // of the requests, before replication
	Series int64         `json:"series"`
	Wall   time.Duration `json:"wall_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
}

type distributor struct {
	conns    []*grpc.ClientConn
	options  []grpc.CallOption
	requests [][]byte
	next     atomic.Int64

	mu        sync.Mutex
	latencies []time.Duration
	result    sent
}

// distributorFlags select the load: a number of pushes or a duration, with atOnce pushes at a time, or a rate
// that does not depend on answers.
type distributorFlags struct {
	targets, encoding, payloads string
	pushes, atOnce              int
	rate                        float64
	duration                    time.Duration
}

func runDistributor(args []string) error {
	var o distributorFlags
	f := flag.NewFlagSet("distributor", flag.ContinueOnError)
	f.StringVar(&o.targets, "targets", "", "addresses of the receivers, separated by commas")
	f.StringVar(&o.encoding, "encoding", "", "compress in process")
	f.StringVar(&o.payloads, "payloads", "", "file of requests")
	f.IntVar(&o.pushes, "pushes", 0, "pushes, if there is no --duration")
	f.IntVar(&o.atOnce, "at-once", 4, "pushes at a time, if there is no --rate")
	f.Float64Var(&o.rate, "rate", 0, "pushes a second")
	f.DurationVar(&o.duration, "duration", 0, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := register(o.encoding); err != nil {
		return err
	}
	d := &distributor{}
	var err error
	if d.requests, err = readPayloads(o.payloads); err != nil {
		return err
	}
	if err := d.connect(strings.Split(o.targets, ","), o.encoding); err != nil {
		return err
	}
	for range 3 { // set up connections, windows and pools first
		d.push()
	}
	if d.result.Failed > 0 {
		return fmt.Errorf("warming up: %s", d.result.Error)
	}
	return d.measure(o)
}

// measure waits for a line on standard input, so that the parent process can measure the other processes at
// the same moments.
func (d *distributor) measure(o distributorFlags) error {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	d.latencies, d.result = nil, sent{}
	d.next.Store(0)
	start, cpu := time.Now(), ownCPU()
	switch {
	case o.rate > 0:
		d.atRate(o.rate, o.duration)
	case o.duration > 0:
		d.atOnce(o.atOnce, func() bool { return time.Since(start) < o.duration })
	default:
		var begun atomic.Int64
		d.atOnce(o.atOnce, func() bool { return begun.Add(1) <= int64(o.pushes) })
	}
	d.result.Wall, d.result.CPU = time.Since(start), ownCPU()-cpu
	slices.Sort(d.latencies)
	d.result.P50, d.result.P99 = quantile(d.latencies, 0.5), quantile(d.latencies, 0.99)
	if err := json.NewEncoder(os.Stdout).Encode(d.result); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in) // until then the parent process measures our memory
	return err
}

func (d *distributor) connect(targets []string, encoding string) error {
	d.options = []grpc.CallOption{grpc.ForceCodecV2(messageCodec{}), grpc.MaxCallSendMsgSize(maxMessage)}
	if encoding != "" {
		d.options = append(d.options, grpc.UseCompressor(encoding))
	}
	for _, target := range targets {
		conn, err := grpc.NewClient("passthrough:///"+target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		d.conns = append(d.conns, conn)
	}
	return nil
}

// atOnce keeps n pushes in flight while more returns true.
func (d *distributor) atOnce(n int, more func() bool) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for more() {
				d.push()
			}
		})
	}
	wg.Wait()
}

// atRate starts pushes at fixed times, whether or not earlier ones are answered, so that a slow server gets
// no pause.
func (d *distributor) atRate(rate float64, duration time.Duration) {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range int(rate * duration.Seconds()) {
		time.Sleep(time.Until(start.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		wg.Go(d.push)
	}
	wg.Wait()
}

// push sends the next request to all receivers at once.
func (d *distributor) push() {
	request := message(d.requests[int(d.next.Add(1)-1)%len(d.requests)])
	var wg sync.WaitGroup
	for _, conn := range d.conns {
		wg.Go(func() { d.call(conn, request) })
	}
	wg.Wait()
	series, _ := countSeries(request)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.result.Pushes++
	d.result.Bytes += int64(len(request))
	d.result.Series += int64(series)
}

func (d *distributor) call(conn *grpc.ClientConn, request message) {
	ctx, cancel := context.WithTimeout(context.Background(), pushDeadline)
	defer cancel()
	start := time.Now()
	err := conn.Invoke(ctx, pushMethod, &request, new(message), d.options...)
	took := time.Since(start)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latencies = append(d.latencies, took)
	if err != nil {
		d.result.Failed++
		d.result.Error = err.Error()
	}
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// ownCPU returns the user and system time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
