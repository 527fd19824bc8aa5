package operate

import (
	"fmt"

	"github.com/cinch-layer/cinch/internal/store"
)

// fault is an error of a kind, which its text does not say.
type fault struct {
	error
	kind error
}

func (f fault) Is(target error) bool { return target == f.kind }
func (f fault) Unwrap() error        { return f.error }

// usage is an error of the command line: it is a store.ErrUsage.
func usage(format string, args ...any) error {
	return fault{fmt.Errorf(format, args...), store.ErrUsage}
}
