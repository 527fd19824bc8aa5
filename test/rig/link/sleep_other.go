//go:build !linux

package link

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
