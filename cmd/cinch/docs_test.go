package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commandInDocs = regexp.MustCompile("`(cinch [^`]+)`|(?m)^ *(?:go run \\./cmd/|sudo )?(cinch [a-z][^\n#|&]*)")
	flagInDocs    = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
	verbInDocs    = regexp.MustCompile(`^[a-z]+$`)
)

// Command lines in the docs use existing flags.
func TestFlagsInDocs(t *testing.T) {
	const root = "../.."
	helps := map[string]string{}
	count := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || d.Name() == "CHANGELOG.md": // may mention removed flags
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range commandInDocs.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			line := m[1] + m[2]
			verbs := verbsOf(line)
			if _, known := helps[verbs]; !known {
				var help bytes.Buffer
				run(append(strings.Fields(verbs), "--help"), strings.NewReader(""), &help, &help)
				helps[verbs] = help.String()
			}
			for _, f := range flagInDocs.FindAllStringSubmatch(line, -1) {
				count++
				if !strings.Contains(helps[verbs], f[1]+" ") && !strings.Contains(helps[verbs], f[1]+"\n") {
					t.Errorf("%s: cinch %s has no %s: %s", path, verbs, f[1], line)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 100 {
		t.Errorf("only %d flags were found", count)
	}
}

// verbsOf returns the words of the command, without its arguments.
func verbsOf(line string) string {
	words := strings.Fields(line)[1:]
	if len(words) == 0 {
		return ""
	}
	verbs := words[0]
	if group := verbs == "dict" || verbs == "config" || verbs == "rollout" || verbs == "shadow" || verbs == "tarantool"; group && len(words) > 1 && verbInDocs.MatchString(words[1]) {
		verbs += " " + words[1]
	}
	return verbs
}
