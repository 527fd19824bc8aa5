// Command record writes, for bench/telemetry, the requests that OpenTelemetry's SDK for Go sends for a number
// of visits to a shop. For each of traces, metrics and logs it writes the number of requests, and then each
// request after its length. All numbers have four bytes, big-endian.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/cinch-layer/cinch/bench/grpc/otlp"
)

func main() {
	visits := flag.Int("visits", 4000, "visits to the shop")
	flag.Parse()
	if err := run(context.Background(), *visits); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, visits int) error {
	all, err := otlp.Record(ctx, visits)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	number := func(n int) error { return binary.Write(out, binary.BigEndian, uint32(n)) }
	for _, list := range [][][]byte{all.Traces, all.Metrics, all.Logs} {
		err := number(len(list))
		for _, m := range list {
			err = errors.Join(err, number(len(m)))
			_, more := out.Write(m)
			err = errors.Join(err, more)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
