package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

//go:embed faults
var faultFiles embed.FS

// fault describes a past fault and the edit that brings it back.
type fault struct {
	Name    string
	Fix     string // the commit that fixed it
	Says    string // the effect on users
	Package string // directory of the edited package, from the root
	In      string // the edited declaration: function, Type.method, or the name of a type, variable or constant
	Old     string // text within it, which occurs once; white space and comments do not count
	New     string
	Tests   []string // directories of the packages that should find it, the fastest first
	Run     string   // limits ring 2 to tests that match, where the whole package takes minutes
	Dropped string   // reason why it is no longer run

	area string // the name of its file
}

func (f *fault) String() string { return f.area + "/" + f.Name }

// loadFaults returns all faults in the order of their files.
func loadFaults() ([]*fault, error) {
	names, err := fs.Glob(faultFiles, "faults/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*fault
	seen := map[string]bool{}
	for _, name := range names {
		text, err := faultFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var list []*fault
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(&list); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, f := range list {
			f.area = strings.TrimSuffix(path.Base(name), ".yaml")
			if seen[f.String()] {
				return nil, fmt.Errorf("%s: duplicate name %s", name, f.Name)
			}
			seen[f.String()] = true
			if f.Name == "" || f.Fix == "" || f.Says == "" || f.Package == "" || f.In == "" || f.Old == "" || len(f.Tests) == 0 {
				return nil, fmt.Errorf("%s: fault %q lacks a field", name, f.Name)
			}
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return nil, errors.New("no faults")
	}
	return all, nil
}

// apply returns the path of the file that the fault edits and the edited text.
func (f *fault) apply(root string) (file string, edited []byte, err error) {
	files, err := filepath.Glob(filepath.Join(root, f.Package, "*.go"))
	if err != nil {
		return "", nil, err
	}
	declared, matches := 0, 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return "", nil, err
		}
		spans, err := declarations(name, text, f.In)
		if err != nil {
			return "", nil, err
		}
		for _, span := range spans {
			declared++
			for _, at := range find(text[span.from:span.to], f.Old) {
				matches++
				file = name
				edited = bytes.Join([][]byte{text[:span.from+at.from], []byte(strings.TrimSpace(f.New)), text[span.from+at.to:]}, nil)
			}
		}
	}
	switch {
	case declared == 0:
		return "", nil, fmt.Errorf("fault %s: no declaration %s in %s: adapt it, or drop it with a reason", f, f.In, f.Package)
	case matches != 1:
		return "", nil, fmt.Errorf("fault %s: text occurs %d times in %s of %s, not once: adapt it, or drop it with a reason",
			f, matches, f.In, f.Package)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), file, edited, parser.SkipObjectResolution); err != nil {
		return "", nil, fmt.Errorf("fault %s: %w", f, err)
	}
	return file, edited, nil
}

type span struct{ from, to int }

// declarations returns where a file declares symbol, which is a name or Type.method.
func declarations(file string, text []byte, symbol string) ([]span, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []span
	add := func(name string, n ast.Node) {
		if name == symbol {
			found = append(found, span{set.Position(n.Pos()).Offset, set.Position(n.End()).Offset})
		}
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(receiver(d)+d.Name.Name, d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, s)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name.Name, s)
					}
				}
			}
		}
	}
	return found, nil
}

// receiver returns "Type." for a method, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// find returns the places of what in text, comparing without white space and comments.
func find(text []byte, what string) []span {
	squeezed, places := squeeze(text)
	needle, _ := squeeze([]byte(what))
	var found []span
	for start := 0; len(needle) > 0; {
		at := bytes.Index(squeezed[start:], needle)
		if at < 0 {
			break
		}
		at += start
		found = append(found, span{places[at], places[at+len(needle)-1] + 1})
		start = at + len(needle)
	}
	return found
}

// squeeze returns Go code without white space and comments, and the original offset of each remaining byte.
func squeeze(text []byte) (rest []byte, places []int) {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, func(token.Position, string) {}, 0) // a piece may end within a literal
	for {
		at, t, literal := s.Scan()
		if t == token.EOF {
			return rest, places
		}
		if t == token.SEMICOLON && literal != ";" {
			continue // the semicolon inserted at a line's end
		}
		from := file.Offset(at)
		to := from + len(t.String())
		if literal != "" {
			to = from + len(literal)
		}
		for i := from; i < min(to, len(text)); i++ {
			if c := text[i]; !unicode.IsSpace(rune(c)) {
				rest, places = append(rest, c), append(places, i)
			}
		}
	}
}
