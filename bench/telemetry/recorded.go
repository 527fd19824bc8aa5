package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

// recorder writes what OpenTelemetry's SDK sends of a shop. It is of another module, for what the SDK needs.
const recorder = "./bench/grpc/otlp/record"

// recordedBySDK are the requests that the SDK makes, which are other ones each time: identifiers are random, times are the clock's.
func recordedBySDK(ctx context.Context, o options) ([]payload, error) {
	all := []payload{{name: "SDK traces", unit: "span", kind: "traces"}, {name: "SDK metrics", unit: "point", kind: "metrics"}, {name: "SDK logs", unit: "log record", kind: "logs"}}
	ways := [][][]uint64{spansAt, pointsAt, spansAt} // log records are where spans are
	if o.visits == 0 || !slices.ContainsFunc(all, func(p payload) bool { return o.only.MatchString(p.name) }) {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, "go", "run", recorder, "-visits", strconv.Itoa(o.visits))
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recorder, err)
	}
	var out []payload
	for i := range all {
		all[i].varies = true
		if b, err = all[i].take(b); err != nil {
			return nil, err
		}
		if err := all[i].count(ways[i]); err != nil {
			return nil, err
		}
		if o.only.MatchString(all[i].name) && all[i].units > 0 {
			out = append(out, all[i])
		}
	}
	return out, nil
}

// take takes the messages of one kind off what the recorder has written.
func (p *payload) take(b []byte) ([]byte, error) {
	number := func() (n int, err error) {
		if len(b) < 4 {
			return 0, errNotOTLP
		}
		n, b = int(binary.BigEndian.Uint32(b)), b[4:]
		return n, nil
	}
	messages, err := number()
	if err != nil {
		return nil, err
	}
	for range messages {
		n, err := number()
		if err != nil || n > len(b) {
			return nil, errNotOTLP
		}
		p.messages, b = append(p.messages, b[:n]), b[n:]
	}
	return b, nil
}
