package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// setup holds everything that runs.
type setup struct {
	work, cinch string
	exporter    *exporter
	direct      way
	pair        way
	processes   []*rig.Process
	listeners   []net.Listener
}

// way leads from Prometheus to a receiver of its own, over a hop that counts bytes.
type way struct {
	receiver receiver
	hop      rig.Hop
}

func (s *setup) stop() {
	for _, p := range s.processes {
		p.Stop()
	}
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

func (s *setup) start() error {
	s.direct.receiver.samples, s.pair.receiver.samples = map[int][]sample{}, map[int][]sample{}
	target, err := s.serve(s.exporter)
	if err != nil {
		return err
	}
	direct, err := s.serve(&s.direct.receiver)
	if err != nil {
		return err
	}
	if direct, err = s.count(&s.direct.hop, direct); err != nil {
		return err
	}
	behind, err := s.serve(&s.pair.receiver)
	if err != nil {
		return err
	}
	far, err := s.gateway(behind, "?peers=true")
	if err != nil {
		return err
	}
	between, err := s.count(&s.pair.hop, far)
	if err != nil {
		return err
	}
	near, err := s.gateway(between, "?history=client")
	if err != nil {
		return err
	}
	return s.prometheus(target, direct, near)
}

// serve serves h on a free port.
func (s *setup) serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.listeners = append(s.listeners, l)
	go func() { _ = http.Serve(l, h) }()
	return l.Addr().String(), nil
}

func (s *setup) count(h *rig.Hop, to string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.listeners = append(s.listeners, l)
	go h.Serve(l, to)
	return l.Addr().String(), nil
}

func (s *setup) gateway(to, options string) (string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	p, err := rig.StartListener("cinch", addr, s.work, s.cinch, "serve", "--admin", "off", "--http", fmt.Sprintf("%s=http://%s%s", addr, to, options))
	if err != nil {
		return "", err
	}
	s.processes = append(s.processes, p)
	return addr, nil
}

const prometheusText = `global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: api
    static_configs: [{targets: [%q]}]
remote_write:
  - {name: direct, url: "http://%s/api/v1/write", queue_config: {max_shards: 1}}
  - {name: gateways, url: "http://%s/api/v1/write", queue_config: {max_shards: 1}}
`

func (s *setup) prometheus(target, direct, near string) error {
	bin, err := exec.LookPath("prometheus")
	if err != nil {
		return errors.New("prometheus is missing: scripts/servers install")
	}
	file := filepath.Join(s.work, "prometheus.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, prometheusText, target, direct, near), 0o600); err != nil {
		return err
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	p, err := rig.StartListener("prometheus", addr, s.work, bin, "--config.file", file, "--storage.tsdb.path", filepath.Join(s.work, "tsdb"), "--web.listen-address", addr)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return nil
}

// wait waits until both receivers have all samples, in order.
func (s *setup) wait(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		err := errors.Join(s.direct.receiver.complete(s.exporter), s.pair.receiver.complete(s.exporter))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not all samples arrived: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
