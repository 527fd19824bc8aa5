//go:build !linux

package trial

import (
	"context"

	"github.com/cinch-layer/cinch/internal/disk"
)

// Check says what is missing.
func Check() error { return ErrBtrfs }

// Mount is of Linux.
func Mount(context.Context, disk.Btrfs, int64) (disk.Volume, error) { return nil, ErrBtrfs }
