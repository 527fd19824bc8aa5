package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/test/rig"
)

//go:embed collector/builder.yaml
var builderText string

//go:embed collector/collector.yaml
var collectorText string

// builder builds a collector from the components that a file lists.
const builder = "go.opentelemetry.io/collector/cmd/builder@v0.165.0"

// collectorProgram returns a collector with the components of builder.yaml. It is built once.
func collectorProgram(work string) (string, error) {
	list := filepath.Join(work, "builder.yaml")
	if err := os.WriteFile(list, []byte(builderText), 0o600); err != nil {
		return "", err
	}
	dir, err := cached("collector", list, func(dir string) error {
		fmt.Println("Building the OpenTelemetry Collector takes some minutes.")
		if err := errors.Join(os.Setenv("GOBIN", dir), os.Setenv("GOWORK", "off"), os.Setenv("GOFLAGS", "")); err != nil {
			return err
		}
		if err := runTool("go", "install", builder); err != nil {
			return err
		}
		text := strings.ReplaceAll(builderText, "./dist", filepath.Join(dir, "dist"))
		own := filepath.Join(dir, "builder.yaml")
		if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
			return err
		}
		return runTool(filepath.Join(dir, "builder"), "--config", own)
	})
	return filepath.Join(dir, "dist", "otelcol-example"), err
}

// compareCollectors has a sender send to a collector beside it, which sends to one beside the receiver:
// uncompressed, with gzip, which is the collectors' default, and through two gateways.
func (s *setup) compareCollectors(ctx context.Context, o options, x sender) (r result, err error) {
	r.name = "Collector to Collector, HTTP"
	program, err := collectorProgram(s.work)
	if err != nil {
		return r, err
	}
	for _, way := range []struct {
		bytes       *int64
		compression string
		paired      bool
	}{{&r.plain, "none", false}, {&r.gzip, "gzip", false}, {&r.pairs, "none", true}} {
		got, n, err := s.throughCollectors(ctx, o, x, program, way.compression, way.paired)
		if err != nil {
			return r, fmt.Errorf("%s, %s: %w", r.name, way.compression, err)
		}
		*way.bytes, r.requests, r.items = n, got.requests, got.spans+got.logs+got.points
	}
	return r, nil
}

// throughCollectors returns the bytes sent between two collectors.
func (s *setup) throughCollectors(ctx context.Context, o options, x sender, program, compression string, paired bool) (*receiver, int64, error) {
	part := &setup{work: s.work, cinch: s.cinch}
	defer part.stop()
	second, err := part.collector(program, s.server.http, "none")
	if err != nil {
		return nil, 0, err
	}
	var by hop
	to := addresses{second, second}
	if paired {
		far, err := part.gateway("collectors-far", farText, map[string]string{"collector:4318": second, "collector:4317": second}, "0.0.0.0:14318", "0.0.0.0:14317")
		if err != nil {
			return nil, 0, err
		}
		to = far
	}
	if err := part.count(&by, to); err != nil {
		return nil, 0, err
	}
	next := by.http
	if paired {
		near, err := part.gateway("collectors-near", nearText, map[string]string{"gateway.zone-b:14318": by.http, "gateway.zone-b:14317": by.grpc}, "127.0.0.1:4318", "127.0.0.1:4317")
		if err != nil {
			return nil, 0, err
		}
		next = near.http
	}
	first, err := part.collector(program, next, compression)
	if err != nil {
		return nil, 0, err
	}
	return s.send(ctx, o, x, addresses{first, first}, &by, false)
}

// collector starts a collector that forwards to an address.
func (s *setup) collector(program, to, compression string) (string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	text := strings.NewReplacer("127.0.0.1:4318", addr, "http://next:4318", "http://"+to, "compression: none", "compression: "+compression).Replace(collectorText)
	file := filepath.Join(s.work, "collector-"+strings.ReplaceAll(addr, ":", "-")+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	p, err := rig.StartListener("collector", addr, s.work, program, "--config", file)
	if err != nil {
		return "", err
	}
	s.processes = append(s.processes, p)
	return addr, nil
}
