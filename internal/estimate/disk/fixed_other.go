//go:build !linux

package disk

import "os"

func onBtrfs(string) bool { return false }

func fixed(*os.File) (int64, bool) { return 0, false }
