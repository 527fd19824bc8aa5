package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/cinch-layer/cinch"

// hook is the source of the package that instrumented code calls.
//
//go:embed hook.go.txt
var hook []byte

const hookPath = module + "/codec/walkhook"

// function is a function of Cinch that an instrumented binary reports.
type function struct{ pkg, file, name string }

// isWalked reports whether the functions of a package are counted: those of internal/, of envelope/ and of the
// module codec.
func isWalked(importPath string) bool {
	rest, ours := strings.CutPrefix(importPath, module)
	return ours && (strings.HasPrefix(rest, "/internal/") || strings.HasPrefix(rest, "/envelope") || strings.HasPrefix(rest, "/codec"))
}

// build compiles cmd/cinch so that every function of Cinch reports when it is entered. The rewritten files
// are in dir and are passed to the compiler as an overlay, so the tree does not change. It returns the binary
// and the functions by number.
func build(dir string) (binary string, functions []function, err error) {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles", "./cmd/cinch")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list: %w", err)
	}
	replace := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			ImportPath, Dir   string
			GoFiles, CgoFiles []string
		}
		if err := d.Decode(&p); err != nil {
			return "", nil, err
		}
		if p.ImportPath == module+"/codec" {
			at := filepath.Join(dir, "hook.go")
			replace[filepath.Join(p.Dir, "walkhook", "hook.go")] = at
			if err := os.WriteFile(at, hook, 0o600); err != nil {
				return "", nil, err
			}
		}
		if !isWalked(p.ImportPath) {
			continue
		}
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			source, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return "", nil, err
			}
			rewritten, found, err := instrument(source, len(functions))
			if err != nil {
				return "", nil, err
			}
			if len(found) == 0 {
				continue
			}
			pkg := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
			for _, f := range found {
				functions = append(functions, function{pkg, pkg + "/" + name, f})
			}
			at := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
			replace[filepath.Join(p.Dir, name)] = at
			if err := os.WriteFile(at, rewritten, 0o600); err != nil {
				return "", nil, err
			}
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	at := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(at, overlay, 0o600); err != nil {
		return "", nil, err
	}
	binary = filepath.Join(dir, "cinch")
	cmd := exec.Command("go", "build", "-overlay", at, "-o", binary, "./cmd/cinch")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", nil, fmt.Errorf("go build: %w", err)
	}
	return binary, functions, nil
}

// instrument makes each declared function of a file report its number, from first on, and returns the
// functions' names. Line numbers do not change. Function literals belong to the function around them.
func instrument(source []byte, first int) (rewritten []byte, names []string, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	done := offset(f.Name.End())
	rewritten = append(rewritten, source[:done]...)
	rewritten = append(rewritten, `; import walkhook "`+hookPath+`"`...)
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || fn.Name.Name == "init" {
			continue
		}
		body := offset(fn.Body.Lbrace) + 1
		rewritten = append(rewritten, source[done:body]...)
		rewritten = fmt.Appendf(rewritten, " walkhook.In(%d);", first+len(names))
		done = body
		names = append(names, receiver(fn)+fn.Name.Name)
	}
	return append(rewritten, source[done:]...), names, nil
}

// receiver returns the type of a method followed by a dot.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch index := t.(type) {
	case *ast.IndexExpr:
		t = index.X
	case *ast.IndexListExpr:
		t = index.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
