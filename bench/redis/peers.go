package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/test/rig"
)

// The peers are Debian's packages haproxy and nutcracker, with one thread each and a minimal configuration.

const nutcrackerText = `redis:
  listen: %s
  redis: true
  preconnect: true
  servers:
   - %s:1
`

func (o *options) startHAProxy(server *rig.Process) (*rig.Process, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.work, "haproxy-")
	if err != nil {
		return nil, err
	}
	command, err := rig.HAProxy(dir, addr, server.Addr)
	if err != nil {
		return nil, err
	}
	return rig.StartListener("haproxy", addr, dir, command...)
}

func (o *options) startNutcracker(server *rig.Process) (*rig.Process, error) {
	bin, err := exec.LookPath("nutcracker")
	if err != nil {
		return nil, errors.New("nutcracker is missing: scripts/servers install bench")
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	free, err := rig.FreeAddr() // for -s, the port of its statistics
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.work, "nutcracker-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nutcrackerText, addr, server.Addr), 0o600); err != nil {
		return nil, err
	}
	port := free[strings.LastIndexByte(free, ':')+1:]
	return rig.StartListener("nutcracker", addr, dir, bin, "-s", port, "-m", "65536", "-c", file)
}
