// Package libzstd is zstd through cgo: several times faster than pure Go with a dictionary on small values,
// since it prepares each dictionary once.
//
// It is a module of its own so that package codec needs no C compiler. The binary gets it from New and passes
// it in codec.Options. Without cgo the package still compiles, and New and Train report that it is missing.
package libzstd

import "errors"

// ErrUnavailable is the error of Train in a program built without cgo.
var ErrUnavailable = errors.New("libzstd needs cgo")
