//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "hop pins processes and reads /proc: it needs Linux")
	os.Exit(1)
}
