package used

import "errors"

// ErrRoot reports that only root can query the size of files.
var ErrRoot = errors.New("btrfs says to root only what files take")
