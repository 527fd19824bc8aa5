package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// compiled holds the fields of `go list -json -export` that the tests use.
type compiled struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// Every edit of a fault still applies to the current code and compiles.
func TestFaultsApply(t *testing.T) {
	testenv.NeedsPrograms(t) // go list -export compiles
	root, err := testenv.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	faults, err := loadFaults()
	if err != nil {
		t.Fatal(err)
	}
	faults = slices.DeleteFunc(faults, func(f *fault) bool { return f.Dropped != "" })
	packages, imports := compile(t, root, faults)
	// By path: faults share the files that they don't edit.
	set, unedited := token.NewFileSet(), map[string]*ast.File{}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", imports)}
	for _, f := range faults {
		t.Run(f.area+"/"+f.Name, func(t *testing.T) {
			file, edited, err := f.apply(root)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range f.Tests {
				if names, _ := filepath.Glob(filepath.Join(root, test, "*_test.go")); len(names) == 0 {
					t.Errorf("%s has no tests", test)
				}
			}
			p, ok := packages[filepath.Dir(file)]
			if !ok || !slices.Contains(p.GoFiles, filepath.Base(file)) {
				t.Fatalf("%s is not compiled on this system", file)
			}
			var files []*ast.File
			for _, name := range p.GoFiles {
				path := filepath.Join(p.Dir, name)
				parsed, text := unedited[path], any(nil) // nil: read the file
				if name == filepath.Base(file) {
					parsed, text = nil, edited
				}
				if parsed == nil {
					if parsed, err = parser.ParseFile(set, path, text, parser.SkipObjectResolution); err != nil {
						t.Fatal(err)
					}
				}
				if text == nil {
					unedited[path] = parsed
				}
				files = append(files, parsed)
			}
			if _, err := config.Check(p.ImportPath, set, files, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every fault that was found once must still be found: its newest row names a test.
func TestFaultsAreFound(t *testing.T) {
	faults, err := loadFaults()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("results.csv")
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]string{} // ring, by area and name of the fault
	for line := range strings.Lines(string(text)) {
		if row := strings.Split(line, ","); len(row) > 3 {
			newest[row[1]+"/"+row[2]] = row[3]
		}
	}
	for _, f := range faults {
		if ring := newest[f.area+"/"+f.Name]; f.Dropped == "" && ring != "1" && ring != "2" {
			t.Errorf("%s/%s: found by ring %q; run go run ./test/mutants -only %[1]s/%[2]s", f.area, f.Name, cmp.Or(ring, "not measured"))
		}
	}
}

// compile returns the packages of faults by directory, and a lookup for the export data of their imports.
func compile(t *testing.T, root string, faults []*fault) (map[string]compiled, importer.Lookup) {
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, f := range faults {
		args = append(args, "./"+f.Package)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	packages, exports := map[string]compiled{}, map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p compiled
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.Dir], exports[p.ImportPath] = p, p.Export
	}
	return packages, func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
}

func TestApply(t *testing.T) {
	dir := t.TempDir()
	const text = "package p\n\ntype T[K any] struct{}\n\nfunc (t *T[K]) f() int {\n\tif a && // both\n\t\tb {\n\t\treturn 1\n\t}\n\treturn 2\n}\n\n" +
		"func f() int { return 2 }\n\nconst limit = 3\n"
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, in, old, new, want, err string }{
		{name: "method", in: "T.f", old: "a&&b", new: "a", want: strings.Replace(text, "a && // both\n\t\tb", "a", 1)},
		{name: "function", in: "f", old: "return 2", new: "return 1", want: strings.Replace(text, "{ return 2 }", "{ return 1 }", 1)},
		{name: "constant", in: "limit", old: "3", new: "4", want: strings.Replace(text, "3", "4", 1)},
		{name: "no declaration", in: "U.f", old: "2", err: "no declaration U.f"},
		{name: "no text", in: "f", old: "return 3", err: "occurs 0 times"},
		{name: "twice", in: "T.f", old: "return", err: "occurs 2 times"},
		{name: "syntax", in: "f", old: "return 2 }", new: "return 2", err: "expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fault{Package: ".", In: c.in, Old: c.old, New: c.new}
			_, edited, err := f.apply(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			} else if err != nil || string(edited) != c.want {
				t.Errorf("%v, edited:\n%s", err, edited)
			}
		})
	}
}
