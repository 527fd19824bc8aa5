//go:build cgo

package libzstd

import (
	"errors"

	"github.com/valyala/gozstd"
)

// Train makes a trained dictionary of up to size bytes with libzstd's own trainer. It holds a copy of all
// samples while it runs, and neither changes nor keeps them. It fails if it finds too little in the samples,
// and with [ErrUnavailable] in a program that was built without cgo.
//
// The result may hold rare strings of single samples. Package dict removes these: pass Train to it as
// dict.TrainOptions.External.
func Train(samples [][]byte, size int) ([]byte, error) {
	full := make([][]byte, 0, len(samples))
	for _, s := range samples {
		if len(s) > 0 {
			full = append(full, s)
		}
	}
	if len(full) == 0 {
		return nil, errors.New("no samples")
	}
	content := gozstd.BuildDict(full, size)
	if len(content) == 0 {
		return nil, errors.New("libzstd finds too little in the samples")
	}
	return content, nil
}
