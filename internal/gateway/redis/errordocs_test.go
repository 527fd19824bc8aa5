package redis

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	verb    = regexp.MustCompile(`%[.0-9]*[a-z]`)
	refusal = regexp.MustCompile(`^-?(?:[A-Z]+ cinch: )\S`)
	listed  = regexp.MustCompile("(?m)^\\| `([A-Z]+ cinch: [^`]*)` \\|")
)

// refusals returns the errors that the gateway's code has for clients, with … for variable parts.
func refusals(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(lit.Value)
			if refusal.MatchString(text) {
				text = strings.TrimSuffix(strings.TrimPrefix(text, "-"), "\r\n")
				if text = verb.ReplaceAllString(text, "…"); strings.HasSuffix(text, ": ") {
					text += "…"
				}
				found[text] = path
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// docs/REDIS.md lists all errors of the gateway, and no others.
func TestRefusalsAreListed(t *testing.T) {
	page, err := os.ReadFile("../../../docs/REDIS.md")
	if err != nil {
		t.Fatal(err)
	}
	said := refusals(t)
	if len(said) < 15 {
		t.Fatalf("only %d errors were found in the code", len(said))
	}
	inDocs := map[string]bool{}
	for _, m := range listed.FindAllStringSubmatch(string(page), -1) {
		inDocs[m[1]] = true
		if said[m[1]] == "" {
			t.Errorf("docs/REDIS.md lists what no code says: %s", m[1])
		}
	}
	for text, file := range said {
		if !inDocs[text] {
			t.Errorf("docs/REDIS.md does not list what %s says: %s", file, text)
		}
	}
}
