package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = ".."

// parseTests returns the tests in each directory of the repository. The value is true if the test asks for
// CINCH_FULL=1, in itself or in a function or variable of its package that it uses.
var parseTests = sync.OnceValues(func() (map[string]map[string]bool, error) {
	uses := map[string]map[string][]string{} // directory, declaration: names that it mentions
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && name != root) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(file), root+string(filepath.Separator)))
		if uses[dir] == nil {
			uses[dir] = map[string][]string{}
		}
		for _, declaration := range parsed.Decls {
			for _, name := range declared(declaration) {
				uses[dir][name] = append(uses[dir][name], mentioned(declaration)...)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tests := map[string]map[string]bool{}
	for dir, declarations := range uses {
		tests[dir] = map[string]bool{}
		for name := range declarations {
			if strings.HasPrefix(name, "Test") && name != "TestMain" {
				tests[dir][name] = asksForFull(declarations, name, map[string]bool{})
			}
		}
	}
	return tests, nil
})

// declared returns the names that a declaration declares: a function's, or those of variables.
func declared(declaration ast.Decl) (names []string) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		names = append(names, d.Name.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range values.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// mentioned returns the names and strings in a declaration. A use of testenv.Full appears as
// "testenv.Full".
func mentioned(declaration ast.Decl) (names []string) {
	ast.Inspect(declaration, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok {
				names = append(names, of.Name+"."+n.Sel.Name)
			}
		case *ast.Ident:
			names = append(names, n.Name)
		case *ast.BasicLit:
			names = append(names, n.Value)
		}
		return true
	})
	return names
}

// asksForFull reports whether a declaration, or one that it uses, asks for CINCH_FULL=1.
func asksForFull(uses map[string][]string, name string, seen map[string]bool) bool {
	seen[name] = true
	for _, used := range uses[name] {
		switch used {
		case "testenv.Full", "testenv.IsFull", "codectest.Amount", `"CINCH_FULL"`:
			return true
		}
		if !seen[used] && asksForFull(uses, used, seen) {
			return true
		}
	}
	return false
}

// testRun is a command that runs tests.
type testRun struct {
	line      string
	dirs      []string // a trailing /... includes all directories below
	run, skip string
}

// covers reports whether the run includes tests in a directory, if its patterns match them.
func (r testRun) covers(dir string) bool {
	return slices.ContainsFunc(r.dirs, func(d string) bool {
		above, all := strings.CutSuffix(d, "/...")
		return dir == above || all && (above == "." || strings.HasPrefix(dir, above+"/"))
	})
}

var (
	inFull = regexp.MustCompile(`(?:cd (\S+) && )?\bgo test ([^&;()]*(?:'[^']*'[^&;()]*)*)`)
	inRace = regexp.MustCompile(`(?m)^ *race (\S+) (.*) -- (\./.*|\.)$`)
	words  = regexp.MustCompile(`'[^']*'|\S+`)
)

// parseRun parses a command's arguments. Packages begin with a dot.
func parseRun(line, module, arguments string) testRun {
	r := testRun{line: line}
	fields := words.FindAllString(arguments, -1)
	for i, field := range fields {
		switch {
		case i > 0 && fields[i-1] == "-run":
			r.run = strings.Trim(field, "'")
		case i > 0 && fields[i-1] == "-skip":
			r.skip = strings.Trim(field, "'")
		case strings.HasPrefix(field, "."):
			r.dirs = append(r.dirs, path.Join(module, field))
		}
	}
	return r
}

// readRuns returns the commands in the lines of a file that find matches.
func readRuns(t *testing.T, file string, find *regexp.Regexp, order func(match []string) (module, arguments string)) (runs []testRun) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, match := range find.FindAllStringSubmatch(line, -1) {
			module, arguments := order(match)
			runs = append(runs, parseRun(line, module, arguments))
		}
	}
	if len(runs) == 0 {
		t.Fatalf("no tests are run in %s", file)
	}
	return runs
}

func fullRuns(t *testing.T) []testRun {
	t.Helper()
	return readRuns(t, "full.txt", inFull, func(match []string) (module, arguments string) { return match[1], match[2] })
}

// top returns the part of a -run or -skip pattern for top-level tests, before the first slash.
func top(pattern string) string {
	before, _, _ := strings.Cut(pattern, "/")
	return before
}

// A test that asks for CINCH_FULL=1 must match a line of full.txt, or it would never run.
func TestFullTestsAreListed(t *testing.T) {
	t.Parallel()
	runs := fullRuns(t)
	all, err := parseTests()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for dir, tests := range all {
		for _, name := range slices.Sorted(maps.Keys(tests)) {
			if !tests[name] {
				continue
			}
			count++
			if !slices.ContainsFunc(runs, func(r testRun) bool {
				skipped := r.skip != "" && !strings.Contains(r.skip, "/") && regexp.MustCompile(r.skip).MatchString(name)
				return r.covers(dir) && regexp.MustCompile(top(r.run)).MatchString(name) && !skipped
			}) {
				t.Errorf("%s asks for CINCH_FULL=1, but no line of test/full.txt runs it in ./%s", name, dir)
			}
		}
	}
	if count < 50 {
		t.Errorf("only %d tests found", count)
	}
}

// Every pattern must match a test: one whose test was renamed runs nothing, and others in the same list
// hide that.
func TestPatternsMatchTests(t *testing.T) {
	t.Parallel()
	tests, err := parseTests()
	if err != nil {
		t.Fatal(err)
	}
	runs := append(fullRuns(t), readRuns(t, "../scripts/race", inRace, func(match []string) (module, arguments string) {
		return match[1], match[2] + " " + match[3]
	})...)
	for _, r := range runs {
		for _, alternatives := range []string{r.run, r.skip} {
			for _, one := range strings.Split(alternatives, "|") {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(tests)), func(dir string) bool {
					return r.covers(dir) && slices.ContainsFunc(slices.Collect(maps.Keys(tests[dir])), regexp.MustCompile(top(one)).MatchString)
				}) {
					t.Errorf("%q matches no test: %s", one, r.line)
				}
			}
		}
	}
}
