package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/bench/rig"
)

// Peers are Debian's packages haproxy and nutcracker, with one thread each and as little
// configuration as they take.

const haproxyText = `global
  nbthread 1
  maxconn 2000
defaults
  mode tcp
  timeout client 1h
  timeout server 1h
  timeout connect 5s
listen redis
  bind %s
  server s %s
`

const nutcrackerText = `redis:
  listen: %s
  redis: true
  preconnect: true
  servers:
   - %s:1
`

func (o *options) startHAProxy(server *rig.Process) (*rig.Process, error) {
	return o.startPeer("haproxy", haproxyText, server, "-db", "-f")
}

func (o *options) startNutcracker(server *rig.Process) (*rig.Process, error) {
	return o.startPeer("nutcracker", nutcrackerText, server, "-s", "0", "-m", "65536", "-c")
}

// startPeer runs a program with a configuration file as its last argument.
func (o *options) startPeer(name, text string, server *rig.Process, args ...string) (*rig.Process, error) {
	bin, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s is missing: test/servers install bench", name)
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.work, name+"-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(text, addr, server.Addr)), 0o600); err != nil {
		return nil, err
	}
	if name == "nutcracker" { // -s takes the port of its statistics
		free, err := rig.FreeAddr()
		if err != nil {
			return nil, err
		}
		args[1] = free[strings.LastIndexByte(free, ':')+1:]
	}
	return rig.StartListener(name, addr, dir, append(append([]string{bin}, args...), file)...)
}
