package disk

import "errors"

// ErrEmpty: there is no file with data in it.
var ErrEmpty = errors.New("no data")

// ErrUnread: there are files, and none could be read.
var ErrUnread = errors.New("no file could be read")

// ErrSetting: a text that is no compression setting of the filesystem.
var ErrSetting = errors.New("no such compression")

// ErrLayout: sizes or disks that the filesystem can't have.
var ErrLayout = errors.New("impossible layout")
