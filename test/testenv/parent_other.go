//go:build !linux

package testenv

import "syscall"

// dieWithParent has no counterpart outside Linux: a test that times out leaves its servers.
func dieWithParent() *syscall.SysProcAttr { return nil }
