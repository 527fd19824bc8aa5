//go:build !cgo

package libzstd

import "github.com/cinch-layer/cinch/codec"

// New reports false: this binary was built without cgo.
func New() (codec.ZstdCoder, bool) { return nil, false }
