package cli

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/internal/store"
)

// Outcomes of a run that has ended without a PASS.
var (
	ErrFail      = errors.New("the verdict is FAIL")
	ErrNoVerdict = errors.New("the run ended without PASS or FAIL")
)

// fault is an error for which errors.Is matches kind, too, although its text does not contain it.
type fault struct {
	error
	kind error
}

func (f fault) Is(target error) bool { return target == f.kind }
func (f fault) Unwrap() error        { return f.error }

// usage returns an error of the command line: it matches store.ErrUsage.
func usage(format string, args ...any) error {
	return fault{fmt.Errorf(format, args...), store.ErrUsage}
}
