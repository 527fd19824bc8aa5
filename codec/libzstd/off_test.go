//go:build !cgo

package libzstd_test

import (
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec/libzstd"
)

func TestOff(t *testing.T) {
	if z, ok := libzstd.New(); ok || z != nil {
		t.Error("libzstd without cgo")
	}
	if _, err := libzstd.Train(nil, 0); !errors.Is(err, libzstd.ErrUnavailable) {
		t.Errorf("train: %v", err)
	}
}
