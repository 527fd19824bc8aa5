// Command picture draws the README's picture from committed results: `go run ./bench/picture`. It measures
// nothing, so the picture changes only when the files in bench/results do.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// run writes one file for light pages and one for dark pages.
func run(root string) error {
	panels, err := readPanels(filepath.Join(root, "bench", "results"))
	if err != nil {
		return err
	}
	for _, t := range themes {
		name := filepath.Join(root, "docs", "images", "before-after-"+t.name+".svg")
		if err := os.WriteFile(name, draw(panels, t), 0o644); err != nil {
			return err
		}
	}
	return nil
}
