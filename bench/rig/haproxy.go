package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// haproxyText passes bytes on, with one thread and as little configuration as it takes.
const haproxyText = `global
  nbthread 1
  maxconn 2000
defaults
  mode tcp
  timeout client 1h
  timeout server 1h
  timeout connect 5s
listen bench
  bind %s
  server s %s
`

// HAProxy is the command line of Debian's haproxy that forwards TCP connections at listen to
// another address. Its configuration is written into dir.
func HAProxy(dir, listen, to string) (command []string, err error) {
	bin, err := exec.LookPath("haproxy")
	if err != nil {
		return nil, fmt.Errorf("haproxy is missing: test/servers install bench")
	}
	file := filepath.Join(dir, "haproxy.conf")
	return []string{bin, "-db", "-f", file}, os.WriteFile(file, fmt.Appendf(nil, haproxyText, listen, to), 0o600)
}
