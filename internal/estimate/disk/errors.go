package disk

import "errors"

// ErrEmpty reports that there is no file with data.
var ErrEmpty = errors.New("no data")

// ErrUnread reports that no file could be read.
var ErrUnread = errors.New("no file could be read")

// ErrSetting reports text that is not a compression setting of the filesystem.
var ErrSetting = errors.New("unknown compression setting")

// ErrLayout reports sizes or disks that the filesystem can't have.
var ErrLayout = errors.New("impossible layout")
