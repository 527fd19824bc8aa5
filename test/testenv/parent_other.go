//go:build !linux

package testenv

import "syscall"

// dieWithParent does nothing outside Linux: a test that times out leaves its servers running.
func dieWithParent() *syscall.SysProcAttr { return nil }
