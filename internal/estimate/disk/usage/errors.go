package usage

import "errors"

// ErrRoot reports that only root can query the size of files.
var ErrRoot = errors.New("btrfs shows only root the space that files take")
