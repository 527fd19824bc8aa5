//go:build unix

package grpc

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

// ways returns the addresses of a server for the benchmarks: directly, through a gateway that changes
// nothing, and through two with zstd-1 between them.
func ways(b *testing.B) (addrs map[string]string, order []string) {
	server := startServer(b, echo)
	plain := startGateway(b, "grpc://"+server, nil)
	rule := policy.MessageRule{Setting: set(b, "zstd-1"), MinSize: 64}
	far := startGateway(b, "grpc://"+server, nil)
	far.SetPolicy(rulesOf(b, policy.MessageRule{Setting: set(b, "raw"), Direction: policy.Request}, rule))
	near := startGateway(b, "grpc://"+far.addr, nil)
	near.SetPolicy(rulesOf(b, rule))
	return map[string]string{"direct": server, "plain": plain.addr, "two": near.addr}, []string{"direct", "plain", "two"}
}

// BenchmarkHop measures the gateway alone, with calls one after the other and a thousand at once: its client and its
// server allocate nothing.
func BenchmarkHop(b *testing.B) {
	for _, atOnce := range []int{1, 1000} {
		b.Run(fmt.Sprint(atOnce), func(b *testing.B) {
			calls := startHop(b, LinkDefault, false)
			calls(atOnce)
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= atOnce {
				calls(min(atOnce, left))
			}
		})
	}
}

// BenchmarkUnary measures the cost of a hop for sequential calls.
func BenchmarkUnary(b *testing.B) {
	addrs, order := ways(b)
	for _, way := range order {
		for _, n := range []int{100, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", way, n), func(b *testing.B) {
				c := connect(b, addrs[way])
				in := payload(n)
				mustEcho(b, c, in)
				b.ReportAllocs()
				b.SetBytes(int64(n))
				before := cpuTime()
				for b.Loop() {
					mustEcho(b, c, in)
				}
				b.ReportMetric(float64(cpuTime()-before)/1e3/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

// BenchmarkUnaryParallel measures it for concurrent calls, 16 for each CPU.
func BenchmarkUnaryParallel(b *testing.B) {
	addrs, order := ways(b)
	for _, way := range order {
		for _, n := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", way, n), func(b *testing.B) {
				c := connect(b, addrs[way])
				in := payload(n)
				mustEcho(b, c, in)
				b.ReportAllocs()
				b.SetBytes(int64(n))
				b.SetParallelism(16)
				before := cpuTime()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						mustEcho(b, c, in)
					}
				})
				b.ReportMetric(float64(cpuTime()-before)/1e3/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

// cpuTime returns the CPU time of the process: client, server and gateways. On a busy machine it is more
// reliable than the clock.
func cpuTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
