package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// way is a chain of proxies between client and server.
type way struct {
	name    string
	addr    string // address that the client connects to
	proxies []*rig.Process
}

// cpu returns the CPU time that the way's processes have used.
func (w *way) cpu() (sum time.Duration, err error) {
	for _, p := range w.proxies {
		used, err := p.CPU()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// builder starts processes, each with GOMAXPROCS=1.
type builder struct {
	dir, self, cinch string
	beside           string // another build of cinch; "": none
	http2            bool   // on both sides
	started          []*rig.Process
}

func (b *builder) stop() {
	for _, p := range b.started {
		p.Stop()
	}
}

// start runs a command that listens at the address it is given.
func (b *builder) start(name string, command func(listen string) ([]string, error)) (*rig.Process, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	args, err := command(addr)
	if err != nil {
		return nil, err
	}
	p, err := rig.StartListener(name, addr, b.dir, append([]string{"env", "GOMAXPROCS=1"}, args...)...)
	if err == nil {
		b.started = append(b.started, p)
	}
	return p, err
}

// role runs this program in another role.
func (b *builder) role(role, to string) (*rig.Process, error) {
	return b.start(role, func(listen string) ([]string, error) {
		return []string{b.self, "-role", role, "-listen", listen, "-to", to, fmt.Sprint("-http2=", b.http2)}, nil
	})
}

// gateway runs a build of cinch; options are appended to the upstream's URL.
func (b *builder) gateway(cinch, to, options string) (*rig.Process, error) {
	scheme := "http"
	if b.http2 {
		scheme = "h2c"
	}
	return b.start("cinch", func(listen string) ([]string, error) {
		return []string{cinch, "serve", "--admin", "off", "--log-level", "error", "--http", fmt.Sprintf("%s=%s://%s%s", listen, scheme, to, options)}, nil
	})
}

const haproxyText = `global
  nbthread 1
  maxconn 2000
defaults
  mode http
  timeout client 1h
  timeout server 1h
  timeout connect 5s
  http-reuse always
listen bench
  bind %s
  server s %s
`

func (b *builder) haproxy(to string) (*rig.Process, error) {
	return b.start("haproxy", func(listen string) ([]string, error) {
		bin, err := exec.LookPath("haproxy")
		if err != nil {
			return nil, fmt.Errorf("haproxy is missing: scripts/servers install bench")
		}
		file := filepath.Join(b.dir, "haproxy.conf")
		return []string{bin, "-db", "-f", file}, os.WriteFile(file, fmt.Appendf(nil, haproxyText, listen, to), 0o600)
	})
}

// ways starts all ways in front of a server.
func (b *builder) ways(server string) (list []*way, err error) {
	add := func(name string, made ...func(to string) (*rig.Process, error)) {
		w := &way{name: name, addr: server}
		for _, make := range made { // from the server to the client
			if err != nil {
				return
			}
			var p *rig.Process
			if p, err = make(w.addr); err == nil {
				w.addr, w.proxies = p.Addr, append(w.proxies, p)
			}
		}
		list = append(list, w)
	}
	gateway := func(binary, options string) func(string) (*rig.Process, error) {
		return func(to string) (*rig.Process, error) { return b.gateway(binary, to, options) }
	}
	add("direct")
	if b.beside != "" {
		add(b.beside, gateway(b.beside, ""))
	}
	if !b.http2 {
		add("HAProxy", b.haproxy)
	}
	add("Go's ReverseProxy", func(to string) (*rig.Process, error) { return b.role("proxy", to) })
	add("cinch, nothing to compress for", gateway(b.cinch, ""))
	add("cinch, zstd", gateway(b.cinch, "?upstream_encodings=zstd"))
	if b.http2 {
		return list, err
	}
	add("cinch, a pair with history", gateway(b.cinch, "?peers=true"), gateway(b.cinch, "?history=client"))
	if b.beside != "" {
		add(b.beside+", a pair with history", gateway(b.beside, "?peers=true"), gateway(b.beside, "?history=client"))
	}
	return list, err
}
