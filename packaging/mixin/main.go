// Command mixin writes the Grafana dashboards beside it. Their panels are described here; Grafana imports the
// files:
//
//	go run ./packaging/mixin
//
// The alerts of the mixin are docs/operations/cinch-alerts.yaml.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: go run ./packaging/mixin")
		os.Exit(2)
	}
	for _, d := range dashboards() {
		text, err := d.file()
		if err == nil {
			err = os.WriteFile(filepath.Join("packaging", "mixin", d.name+".json"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "mixin:", err)
			os.Exit(1)
		}
	}
}

// file returns the JSON that Grafana imports.
func (d *dashboard) file() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d.model())
	return text.Bytes(), err
}
