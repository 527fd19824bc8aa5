// Command reference generates the documentation of configuration keys from the code: the tables of
// docs/CONFIG.md, docs/config.schema.json, and its copy within the schema of the Helm chart's values. Run `go
// run ./packaging/reference` in the repository's root.
package main

import (
	"fmt"
	"os"

	"github.com/cinch-layer/cinch/internal/config/reference"
)

func main() {
	if err := run("docs/CONFIG.md", "docs/config.schema.json", "packaging/kubernetes/cinch/values.schema.json"); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(page, schema, values string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	anew, err := reference.Page(string(text))
	if err != nil {
		return err
	}
	form, err := reference.Schema()
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, []byte(anew), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(schema, form, 0o644); err != nil {
		return err
	}
	chart, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	if chart, err = reference.Values(chart); err != nil {
		return err
	}
	return os.WriteFile(values, chart, 0o644)
}
