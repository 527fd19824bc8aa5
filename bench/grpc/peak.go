package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

// Streams of messages of about 1 MB, one goroutine each.
const (
	streams           = 256
	messagesPerStream = 6
)

// peak holds the highest heap, in bytes, of one contender.
type peak struct {
	contender string
	procs     int
	bytes     int
}

// none is the contender that compresses nothing: it measures the test's own heap.
const none = "none"

// measurePeaks runs every contender in a separate process.
func measurePeaks(ctx context.Context, all []contender) ([]peak, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var peaks []peak
	for _, procs := range []int{2, 16} {
		for _, c := range append([]contender{{name: none}}, all...) {
			cmd := exec.CommandContext(ctx, self, "-peak-of", c.name)
			cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("peak heap of %s: %w", c.name, err)
			}
			n, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "peak heap, GOMAXPROCS %2d, %-28s %4d MB\n", procs, c.name, n>>20)
			peaks = append(peaks, peak{c.name, procs, n})
		}
	}
	return peaks, nil
}

func printPeak(name string, corpus *remotewrite.Corpus) error {
	messages := corpus.Scraped(2000, 8)
	trip := func([]byte, *scratch) (int, error) { return 0, nil }
	if name != none {
		c, err := named(name)
		if err != nil {
			return err
		}
		trip = c.trip
	}
	*corpus = remotewrite.Corpus{}
	runtime.GC()
	highest := watchHeap()
	err := runStreams(messages, trip)
	fmt.Println(highest())
	return err
}

func runStreams(messages [][]byte, trip func([]byte, *scratch) (int, error)) error {
	var wg sync.WaitGroup
	errs := make(chan error, streams)
	for i := range streams {
		wg.Go(func() {
			for j := range messagesPerStream {
				if _, err := trip(messages[(i+j)%len(messages)], new(scratch)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// watchHeap samples, every millisecond, the heap in use, including free space in its spans. The function that
// it returns ends the sampling and returns the highest value in bytes.
func watchHeap() func() int {
	stop, result := make(chan struct{}), make(chan int)
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	go func() {
		most := uint64(0)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(samples)
			most = max(most, samples[0].Value.Uint64()+samples[1].Value.Uint64())
			select {
			case <-stop:
				result <- int(most)
				return
			case <-tick.C:
			}
		}
	}()
	return func() int { close(stop); return <-result }
}
