//go:build cgo

package libzstd

import "github.com/cinch-layer/cinch/codec"

// New returns libzstd.
func New() (codec.ZstdCoder, bool) { return nil, false }
