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

// recorder is the program that records what OpenTelemetry's SDK sends for a shop. It is in another module
// because of the SDK's dependencies.
const recorder = "./bench/grpc/otlp/record"

// recordedBySDK returns requests of the SDK. They differ each time: identifiers are random, and times are the
// clock's.
func recordedBySDK(ctx context.Context, o options) ([]payload, error) {
	all := []payload{{name: "SDK traces", unit: "span", kind: "traces"}, {name: "SDK metrics", unit: "point", kind: "metrics"}, {name: "SDK logs", unit: "log record", kind: "logs"}}
	ways := [][][]uint64{spansAt, pointsAt, spansAt} // log records have the same path as spans
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

// take parses the messages of one kind from the recorder's output and returns the rest.
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
