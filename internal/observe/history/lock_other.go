//go:build !unix

package history

import "os"

func lock(*os.File) {}

// locked returns false: locks are not supported here, and processes are not replaced by others either.
func locked(*os.File) bool { return false }
