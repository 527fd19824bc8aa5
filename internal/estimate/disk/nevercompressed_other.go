//go:build !linux

package disk

import "os"

func onBtrfs(string) bool { return false }

func neverCompressed(*os.File) (int64, bool) { return 0, false }
