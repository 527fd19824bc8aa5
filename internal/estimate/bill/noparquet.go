//go:build noparquet

package bill

import (
	"context"
	"errors"
	"os"
)

// readParquet refuses the file: `make run` builds without Parquet, which brings 40 packages.
func readParquet(context.Context, *os.File, int64, *adder) error {
	return errors.New("it is a Parquet file, and this program was built without Parquet; build it with make, or export the bill as CSV")
}
