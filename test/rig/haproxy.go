package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// haproxyText is a minimal configuration that forwards TCP connections with one thread.
const haproxyText = `global
  nbthread 1
  maxconn 9900
defaults
  mode tcp
  timeout client 1h
  timeout server 1h
  timeout connect 5s
listen bench
  bind %s
  server s %s
`

// HAProxy returns the command line of Debian's haproxy, forwarding TCP connections at listen to another
// address. It writes the configuration into dir.
func HAProxy(dir, listen, to string) (command []string, err error) {
	bin, err := exec.LookPath("haproxy")
	if err != nil {
		return nil, fmt.Errorf("haproxy is missing: scripts/servers install bench")
	}
	file := filepath.Join(dir, "haproxy.conf")
	return []string{bin, "-db", "-f", file}, os.WriteFile(file, fmt.Appendf(nil, haproxyText, listen, to), 0o600)
}
