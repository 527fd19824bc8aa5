//go:build !linux

package tempbtrfs

import (
	"context"

	"github.com/cinch-layer/cinch/internal/estimate/disk"
)

// Check returns which requirement of Mount is missing.
func Check() error { return ErrBtrfs }

// Mount works on Linux only.
func Mount(context.Context, disk.Btrfs, int64) (disk.Volume, error) { return nil, ErrBtrfs }
