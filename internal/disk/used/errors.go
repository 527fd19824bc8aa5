package used

import "errors"

// ErrRoot says that a filesystem shows to root only what files take.
var ErrRoot = errors.New("btrfs says to root only what files take")
