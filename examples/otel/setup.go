package main

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/test/rig"
)

// The configurations that README shows. The example replaces their addresses.
//
//go:embed near.yaml
var nearText string

//go:embed far.yaml
var farText string

// setup holds everything that runs beside the senders.
type setup struct {
	work, cinch string
	server      server
	direct      hop // in front of the server
	between     hop // between the two gateways
	near        addresses
	processes   []*rig.Process
	listeners   []net.Listener
}

// addresses holds the OTLP addresses for HTTP and for gRPC.
type addresses struct{ http, grpc string }

// hop counts the bytes for both protocols.
type hop struct {
	rig.Hop
	addresses
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
	if err := s.server.start(s.listen); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.work, "peer.key"), []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	if err := s.count(&s.direct, addresses{s.server.http, s.server.grpc}); err != nil {
		return err
	}
	far, err := s.gateway("far", farText, map[string]string{"collector:4318": s.server.http, "collector:4317": s.server.grpc}, "0.0.0.0:14318", "0.0.0.0:14317")
	if err != nil {
		return err
	}
	if err := s.count(&s.between, far); err != nil {
		return err
	}
	s.near, err = s.gateway("near", nearText, map[string]string{"gateway.zone-b:14318": s.between.http, "gateway.zone-b:14317": s.between.grpc}, "127.0.0.1:4318", "127.0.0.1:4317")
	return err
}

// listen listens on a free port.
func (s *setup) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		s.listeners = append(s.listeners, l)
	}
	return l, err
}

// count starts a hop in front of addresses.
func (s *setup) count(h *hop, to addresses) error {
	for _, way := range []struct {
		at *string
		to string
	}{{&h.http, to.http}, {&h.grpc, to.grpc}} {
		l, err := s.listen()
		if err != nil {
			return err
		}
		*way.at = l.Addr().String()
		go h.Serve(l, way.to)
	}
	return nil
}

// gateway starts a gateway process with a configuration, in which it replaces the listening addresses by free
// ones and the upstreams as given.
func (s *setup) gateway(name, text string, upstreams map[string]string, http, grpc string) (a addresses, err error) {
	if a.http, err = rig.FreeAddr(); err != nil {
		return a, err
	}
	if a.grpc, err = rig.FreeAddr(); err != nil {
		return a, err
	}
	replace := []string{http, a.http, grpc, a.grpc}
	for from, to := range upstreams {
		replace = append(replace, from, to)
	}
	file := filepath.Join(s.work, name+".yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(text)), 0o600); err != nil {
		return a, err
	}
	p, err := rig.StartListener("cinch", a.http, s.work, s.cinch, "serve", "--config", file, "--admin", "off")
	if err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	s.processes = append(s.processes, p)
	return a, nil
}
