package archtest

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Comments and documents are read by people who don't know the project. CONTRIBUTING.md says how to write them. This
// finds long lines, and two habits that made readers read twice.
var (
	// opening is a sentence that says neither what a thing is nor what it does.
	opening = regexp.MustCompile(`^\w[\w.]* (?:is|are) (?:what|who|whose|whoever|that of|how|where|when|why)\b`)
	// person stands for a client, a goroutine or a caller.
	person = regexp.MustCompile(`(?i)\b(?:nobody|somebody|whoever|whomever)\b`)
)

// maxProse is the longest line of prose in comments and documents, in characters; a tab counts as tabWidth. Pictures,
// tables, code, directives, comments with a URL, and lines without a space to break at may be longer.
const (
	maxProse = 120
	tabWidth = 4
)

func TestWords(t *testing.T) {
	root, err := testenv.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || name == "node_modules" || name == "vendor" || strings.HasPrefix(name, ".") && path != root):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"):
			return checkComments(t, path)
		case strings.HasSuffix(name, ".md") && !strings.Contains(path, filepath.Join("bench", "results")):
			return checkProse(t, path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// checkComments reports comments with a habit, and long lines of comments.
func checkComments(t *testing.T, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file := fset.AddFile(path, -1, len(text))
	lines := strings.Split(string(text), "\n")
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	last := 0 // line of the previous comment
	for {
		pos, kind, comment := s.Scan()
		if kind == token.EOF {
			return nil
		}
		if kind != token.COMMENT {
			continue
		}
		line := file.PositionFor(pos, false).Line
		if isLongComment(lines[line-1]) {
			t.Errorf("%s:%d: more than %d characters", path, line, maxProse)
		}
		comment = strings.TrimSpace(strings.TrimLeft(comment, "/*"))
		if person.MatchString(comment) {
			t.Errorf("%s:%d: name the client, caller or goroutine: %s", path, line, comment)
		}
		if line != last+1 && opening.MatchString(comment) {
			t.Errorf("%s:%d: say what it is or does: %s", path, line, comment)
		}
		last = line
	}
}

// isLongComment reports whether a line consists of a comment and should be broken.
func isLongComment(line string) bool {
	comment := strings.TrimLeft(line, "\t")
	words, isProse := strings.CutPrefix(comment, "// ")
	width := len([]rune(line)) + (tabWidth-1)*strings.Count(line, "\t")
	return isProse && width > maxProse && strings.Contains(words, " ") && !strings.Contains(words, "://")
}

// checkProse reports long lines of a document.
func checkProse(t *testing.T, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	code := false
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code || len([]rune(line)) <= maxProse || strings.HasPrefix(strings.TrimSpace(line), "|") || strings.HasPrefix(line, "    ") || strings.HasPrefix(strings.TrimSpace(line), "<img") {
			continue
		}
		if i := strings.LastIndexByte(line[:maxProse], ' '); i > 0 && strings.TrimSpace(line[:i]) != "" {
			t.Errorf("%s:%d: %d characters of prose, more than %d", path, number, len([]rune(line)), maxProse)
		}
	}
	return nil
}

func TestLongComments(t *testing.T) {
	words := strings.Repeat("word ", 23) // 115 characters
	for line, want := range map[string]bool{
		"// " + words + "a": false, "// " + words + "ab": false, "// " + words + "abc": true, "\t// " + words: true,
		"// " + words + "ünï": true, "// " + words + "üï": false, "x := 1 // " + words: false,
		"//go:generate " + words: false, "//nolint:x // " + words: false,
		"//\t" + words: false, "// " + words + "https://example.com": false, "// " + strings.Repeat("x", maxProse): false,
	} {
		if isLongComment(line) != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
}

// The habits are found, and what resembles them is not.
func TestHabits(t *testing.T) {
	for text, want := range map[string]bool{
		"Limit is how many there are.": true, "link.Limit is where it ends.": true, "They are that of a peer.": true,
		"It is that large.": false, "is what it says": false, "Limit is the number.": false,
	} {
		if opening.MatchString(text) != want {
			t.Errorf("%q: %v, want %v", text, !want, want)
		}
	}
	if !person.MatchString("Whoever") || person.MatchString("anybody's") {
		t.Error("persons")
	}
}
