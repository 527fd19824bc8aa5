package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// pages returns all Markdown files of the repository, by their path below its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 20 {
		t.Fatalf("only %d pages were found", len(found))
	}
	return found
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code    = regexp.MustCompile("`[^`\n]*`")
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// Each relative link of a page leads to a file, and its fragment to a heading in it.
func TestLinks(t *testing.T) {
	all := pages(t)
	names := map[string]map[string]bool{} // anchors of each page
	for page, text := range all {
		names[page] = anchors(text)
	}
	for page, text := range all {
		text = code.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			checkLink(t, names, page, m[1]+m[2])
		}
	}
}

func checkLink(t *testing.T, names map[string]map[string]bool, page, to string) {
	t.Helper()
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return
	}
	path, fragment, _ := strings.Cut(to, "#")
	target := page
	if path != "" {
		target = filepath.Join(filepath.Dir(page), path)
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		t.Errorf("%s: the link to %s leads nowhere", page, to)
		return
	}
	if own, ok := names[target]; ok && fragment != "" && !own[fragment] {
		t.Errorf("%s: %s has no heading for #%s", page, target, fragment)
	}
}

// anchors returns the names that GitHub gives headings: lower case, blanks replaced by hyphens, no other
// punctuation.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(m[1])) {
			switch {
			case r == ' ':
				b.WriteRune('-')
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127 && r != '…' && r != '×':
				b.WriteRune(r)
			}
		}
		names[b.String()] = true
	}
	return names
}
