package archtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/cinch-layer/cinch"

// Product is the patterns of the product's packages, relative to the repository's root: everything except
// tests, benchmarks and examples.
var Product = []string{"./envelope/...", "./cmd/...", "./internal/...", "./codec/..."}

// Package holds the figures of one package for the house rules.
type Package struct {
	Path             string // relative to the module, "." for its root
	Lines, TestLines int
	Funcs            []int    // lines of each function, shortest first
	Types            []Type   // by number of methods, most first
	Order            []string // files in reading order
	Arrows, Back     []Arrow  // between files; Back are the Arrows that run back up
}

// Type is a named type of a package.
type Type struct {
	Name    string
	Methods int
	Files   int      // that hold its methods
	Members []string // names of its fields and methods, mutexes left out
	Dicts   bool     // an interface whose methods take or return dictionaries
}

// Arrow reports that one file of a package uses a declaration of another.
type Arrow struct{ From, To string }

// built has the used fields of `go list -json -export`.
type built struct {
	ImportPath, Dir, Export            string
	DepOnly                            bool
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// Measure returns the figures of the packages that match patterns in the module in dir, ordered by path.
//
// There is an arrow from a file to another of its package if it uses a declaration of the other: a type
// (including the receiver of a method), function, method, field, variable or constant of the package. Any
// number of uses is one arrow. It runs back up if the other file is read earlier. Files are read in the order
// in which the package's comment names them; files that it does not name are placed where they leave the
// fewest arrows back.
func Measure(dir string, patterns ...string) ([]Package, error) {
	listed, err := list(dir, patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range listed {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var all []Package
	for _, p := range listed {
		if p.DepOnly {
			continue
		}
		one, err := p.measure(fset, imports)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Package) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// list lists packages and their dependencies, compiled.
func list(dir string, patterns []string) ([]built, error) {
	command := exec.Command("go", append([]string{
		"list", "-deps", "-export",
		"-json=ImportPath,Dir,Export,DepOnly,GoFiles,TestGoFiles,XTestGoFiles",
	}, patterns...)...)
	command.Dir = dir
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("go list: %w\n%s", err, exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	var all []built
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p built
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

func (p built) measure(fset *token.FileSet, imports types.Importer) (Package, error) {
	m := Package{Path: relative(p.ImportPath)}
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return m, err
		}
		m.TestLines += bytes.Count(text, []byte("\n"))
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return m, err
		}
		files = append(files, f)
		m.Lines += fset.File(f.FileStart).LineCount() - 1
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info)
	if err != nil {
		return m, err
	}
	m.Funcs = lengths(fset, files)
	m.Types = declared(fset, checked)
	arrows := between(fset, info, checked)
	m.Order = order(p.GoFiles, named(files, p.GoFiles), arrows)
	m.Arrows, m.Back = arrows, back(m.Order, arrows)
	return m, nil
}

// lengths returns the number of lines of each function.
func lengths(fset *token.FileSet, files []*ast.File) []int {
	var lines []int
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				lines = append(lines, fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// declared returns the types that a package declares, by number of methods.
func declared(fset *token.FileSet, p *types.Package) []Type {
	var all []Type
	for _, name := range p.Scope().Names() {
		object, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || object.IsAlias() {
			continue
		}
		named := object.Type().(*types.Named)
		t := Type{Name: name, Methods: named.NumMethods()}
		files := map[string]bool{}
		for method := range named.Methods() {
			files[base(fset, method.Pos())] = true
			t.Members = append(t.Members, method.Name())
		}
		t.Files = len(files)
		switch under := named.Underlying().(type) {
		case *types.Struct:
			for field := range under.Fields() {
				if !strings.HasPrefix(field.Type().String(), "sync.") {
					t.Members = append(t.Members, field.Name())
				}
			}
		case *types.Interface:
			for method := range under.Methods() {
				t.Members = append(t.Members, method.Name())
				t.Dicts = t.Dicts || strings.Contains(method.Signature().String(), "*"+module+"/codec.Dict")
			}
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b Type) int { return cmp.Compare(b.Methods, a.Methods) })
	return all
}

// between returns the arrows between the files of a package.
func between(fset *token.FileSet, info *types.Info, p *types.Package) []Arrow {
	seen := map[Arrow]bool{}
	for id, object := range info.Uses {
		if object.Pkg() != p || !lasting(object, p) {
			continue
		}
		a := Arrow{base(fset, id.Pos()), base(fset, object.Pos())}
		if a.From != a.To {
			seen[a] = true
		}
	}
	all := make([]Arrow, 0, len(seen))
	for a := range seen {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Arrow) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return all
}

// lasting reports whether an object is not local to a function.
func lasting(object types.Object, p *types.Package) bool {
	switch o := object.(type) {
	case *types.Var:
		return o.IsField() || o.Parent() == p.Scope()
	case *types.Func:
		return true
	}
	return object.Parent() == p.Scope()
}

func base(fset *token.FileSet, at token.Pos) string { return filepath.Base(fset.Position(at).Filename) }

var fileName = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)

// named returns the files that a package's comment names, in that order.
func named(files []*ast.File, names []string) []string {
	var order []string
	for _, f := range files {
		for _, name := range fileName.FindAllString(f.Doc.Text(), -1) {
			if slices.Contains(names, name) && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
	}
	return order
}

// order inserts names between the listed ones, which keep their order, each where it leaves the fewest arrows
// back, until moving another one gains nothing.
func order(names, listed []string, arrows []Arrow) []string {
	all := slices.Clone(listed)
	for gained := true; gained; {
		gained = false
		for _, name := range names {
			if slices.Contains(listed, name) {
				continue
			}
			before := slices.Index(all, name)
			rest := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == name })
			best, least := -1, 0
			for i := range len(rest) + 1 {
				if n := len(back(slices.Insert(slices.Clone(rest), i, name), arrows)); best < 0 || n < least {
					best, least = i, n
				}
			}
			if before < 0 || least < len(back(all, arrows)) {
				all, gained = slices.Insert(rest, best, name), true
			}
		}
	}
	return all
}

// back returns the arrows that run against an order. It ignores files that the order lacks.
func back(order []string, arrows []Arrow) []Arrow {
	at := map[string]int{}
	for i, name := range order {
		at[name] = i
	}
	var up []Arrow
	for _, a := range arrows {
		from, ok := at[a.From]
		to, ok2 := at[a.To]
		if ok && ok2 && to < from {
			up = append(up, a)
		}
	}
	return up
}

// relative returns an import path relative to the module, "." for its root.
func relative(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// vocabulary lists the names that mean the same in every gateway, although the types differ by protocol.
var vocabulary = []string{"Config", "Gateway", "session", "request"}

// Homonyms returns the names that types of several gateways share without sharing a field or a method, each
// with its places.
func Homonyms(all []Package) []string {
	where := map[string][]string{}
	members := map[string][][]string{}
	for _, p := range all {
		if !strings.HasPrefix(p.Path, "internal/gateway/") {
			continue
		}
		for _, t := range p.Types {
			where[t.Name] = append(where[t.Name], strings.TrimPrefix(p.Path, "internal/gateway/"))
			members[t.Name] = append(members[t.Name], t.Members)
		}
	}
	var names []string
	for name, packages := range where {
		if !slices.Contains(vocabulary, name) && apart(members[name]) {
			names = append(names, name+": "+strings.Join(packages, ", "))
		}
	}
	slices.Sort(names)
	return names
}

// apart reports whether two of the types have no member in common.
func apart(members [][]string) bool {
	for i, one := range members {
		for _, other := range members[i+1:] {
			if !slices.ContainsFunc(one, func(m string) bool { return slices.Contains(other, m) }) {
				return true
			}
		}
	}
	return false
}
