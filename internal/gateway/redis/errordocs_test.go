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

// The errors that docs/REDIS.md explains are those of the code, word for word.
func TestExplainedErrorsExist(t *testing.T) {
	page, err := os.ReadFile("../../../docs/REDIS.md")
	if err != nil {
		t.Fatal(err)
	}
	said := refusals(t)
	explained := listed.FindAllStringSubmatch(string(page), -1)
	if len(said) < 15 || len(explained) < 5 {
		t.Fatalf("only %d errors were found in the code, and %d in docs/REDIS.md", len(said), len(explained))
	}
	for _, m := range explained {
		if said[m[1]] == "" {
			t.Errorf("docs/REDIS.md explains an error that the code does not have: %s", m[1])
		}
	}
}
