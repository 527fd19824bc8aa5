//go:build !cgo

package libzstd

import "github.com/cinch-layer/cinch/codec"

// New returns nil and false: this program was built without cgo.
func New() (codec.ZstdCoder, bool) { return nil, false }

// Train returns [ErrUnavailable].
func Train([][]byte, int) ([]byte, error) { return nil, ErrUnavailable }
