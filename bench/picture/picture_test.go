package main

import (
	"bytes"
	"os"
	"testing"
)

// The README's picture matches the committed results.
func TestPictureIsCurrent(t *testing.T) {
	panels, err := readPanels("../results")
	if err != nil {
		t.Fatal(err)
	}
	for _, theme := range themes {
		name := "../../docs/images/before-after-" + theme.name + ".svg"
		committed, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(committed, draw(panels, theme)) {
			t.Errorf("%s is old: go run ./bench/picture", name)
		}
	}
}
