package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recovering lists the packages whose goroutines handle data from clients, servers and peers: a panic in any
// of them would end the process.
var recovering = []string{"internal/gateway", "internal/switchover/postgres", "internal/observe/admin", "internal/store", "internal/dictionary", "internal/store/pack"}

// catchers are functions that recover when deferred. runners recover from panics of the function that they
// run.
var (
	catchers = []string{"gateway.CatchPanic", "CatchPanic", "panics.Catch", "Catch", "catch"}
	runners  = []string{"panics.KeepRunning"}
)

// unprotected lists goroutines and timers that need not recover, each with the reason.
var unprotected = map[string]string{
	"internal/gateway/http2/context.go end":                  "runs package context's own function, which ends contexts",
	"internal/gateway/http2/context.go afterEnd":             "ends a scope or, in another goroutine that recovers, a request",
	"internal/gateway/http2/pool.go Shut":                    "closes a connection",
	"internal/gateway/http2/serverstream.go run":             "what a worker runs recovers by itself: it knows whose panic it is",
	"internal/gateway/grpc/messagecache.go startSweep":       "forgets by age",
	"internal/gateway/grpc/gateway.go Shutdown":              "closes a channel",
	"internal/gateway/http/transport.go connectHTTP2":        "closes a connection",
	"internal/gateway/redis/indexsweep.go pass":              "closes a client",
	"internal/gateway/peer/link/linkconn.go Enter":           "sets a deadline",
	"internal/gateway/mongo/topology.go expect":              "closes a channel",
	"internal/gateway/tarantool/outstanding.go awaitReplies": "wakes the caller",
	"internal/switchover/postgres/gateway.go Shutdown":       "starts goroutines that recover",
	"internal/switchover/postgres/held.go awaitIdle":         "wakes those that wait",
	"internal/gateway/server.go close":                       "closes connections",
	"internal/gateway/sparselog.go admit":                    "logs what was logged already",
	"internal/gateway/sparselog.go end":                      "likewise",
	"internal/gateway/tunnel/gateway.go Shutdown":            "closes what is being made",
	"internal/gateway/tunnel/gateway.go connect":             "closes a connection",
	"internal/gateway/tunnel/spares.go put":                  "closes connections by age",
	"internal/store/pack/background.go Run":                  "waits for channels, and cancels a context",
	"internal/dictionary/ruledict/train.go train":            "likewise",
}

// TestGoroutinesRecover finds go statements, calls of WaitGroup.Go and timers' functions that do not recover
// from panics. A function recovers if it, or the function of the package that it names, defers a catcher, or
// if it is a runner.
func TestGoroutinesRecover(t *testing.T) {
	used := map[string]bool{}
	seen := 0
	for _, p := range packages(t) {
		if !underAny(p.path(), recovering) {
			continue
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		found := begunIn(fset, files)
		seen += len(found)
		for _, b := range found {
			at := fset.Position(b.at)
			place := p.path() + "/" + filepath.Base(at.Filename) + " " + b.by
			if b.recovers {
				continue
			}
			if used[place] = true; unprotected[place] == "" {
				t.Errorf("%s:%d: what %s begins does not recover from a panic, which would end the process: defer gateway.CatchPanic or panics.Catch there, or run it by panics.KeepRunning", filepath.Join(p.path(), filepath.Base(at.Filename)), at.Line, b.by)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d goroutines were found", seen)
	}
	for place := range unprotected {
		if !used[place] {
			t.Errorf("%q is excused and needs no excuse: remove it", place)
		}
	}
}

// begun is a function that is started in a goroutine.
type begun struct {
	by       string // name of the function that starts it
	at       token.Pos
	recovers bool
}

// functions looks up the functions of a package.
type functions struct {
	info  types.Info
	funcs map[token.Pos]*ast.FuncDecl // by the positions of their names
}

// nothing is an importer without packages: the package's own declarations suffice.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not needed", path)
}

func functionsIn(fset *token.FileSet, files []*ast.File) *functions {
	d := &functions{
		info:  types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}},
		funcs: map[token.Pos]*ast.FuncDecl{},
	}
	cfg := types.Config{Importer: nothing{}, Error: func(error) {}}
	_, _ = cfg.Check("p", fset, files, &d.info)
	for _, f := range files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				d.funcs[fn.Name.Pos()] = fn
			}
		}
	}
	return d
}

// of returns the function of the package that an expression names, or nil.
func (d *functions) of(fn ast.Expr) *ast.FuncDecl {
	var o types.Object
	switch fn := fn.(type) {
	case *ast.Ident:
		o = d.info.Uses[fn]
	case *ast.SelectorExpr:
		if s := d.info.Selections[fn]; s != nil {
			o = s.Obj()
		}
	}
	if f, ok := o.(*types.Func); ok {
		return d.funcs[f.Origin().Pos()]
	}
	return nil
}

// begunIn returns the goroutines that the functions of a package start.
func begunIn(fset *token.FileSet, files []*ast.File) (found []begun) {
	named := functionsIn(fset, files)
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				var run ast.Expr
				switch n := n.(type) {
				case *ast.GoStmt:
					run = n.Call.Fun
					if slices.Contains(runners, nameOf(run)) {
						found = append(found, begun{fn.Name.Name, n.Pos(), true})
						return true
					}
				case *ast.CallExpr:
					if run = startedBy(n); run == nil {
						return true
					}
				default:
					return true
				}
				found = append(found, begun{fn.Name.Name, n.Pos(), recovers(run, named)})
				return true
			})
		}
	}
	return found
}

// startedBy returns the function that a call starts in a goroutine, or nil for other calls.
func startedBy(call *ast.CallExpr) ast.Expr {
	called, ok := call.Fun.(*ast.SelectorExpr)
	switch {
	case ok && called.Sel.Name == "Go" && len(call.Args) == 1:
		return call.Args[0]
	case ok && called.Sel.Name == "AfterFunc" && len(call.Args) == 2:
		return call.Args[1]
	}
	return nil
}

// recovers reports whether a function, or the one that it calls, defers a catcher.
func recovers(run ast.Expr, named *functions) bool {
	if lit, ok := run.(*ast.FuncLit); ok {
		return protected(lit.Body) || onlyCalls(lit.Body, named)
	}
	fn := named.of(run)
	return fn != nil && protected(fn.Body)
}

// protected reports whether a body defers a catcher.
func protected(body *ast.BlockStmt) bool {
	return slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		d, ok := s.(*ast.DeferStmt)
		if !ok {
			return false
		}
		name := nameOf(d.Call.Fun)
		return slices.Contains(catchers, name) || strings.HasSuffix(name, ".Catch")
	})
}

// onlyCalls reports whether a function only calls a protected function, or a runner.
func onlyCalls(body *ast.BlockStmt, named *functions) bool {
	if len(body.List) != 1 {
		return false
	}
	var call ast.Expr
	switch s := body.List[0].(type) {
	case *ast.ExprStmt:
		call = s.X
	case *ast.AssignStmt:
		call = s.Rhs[0]
	}
	c, ok := call.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := named.of(c.Fun)
	return slices.Contains(runners, nameOf(c.Fun)) || fn != nil && protected(fn.Body)
}

// nameOf returns a function's name with its qualifiers, as far as these are names.
func nameOf(fn ast.Expr) string {
	switch fn := fn.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		if x := nameOf(fn.X); x != "" {
			return x + "." + fn.Sel.Name
		}
		return fn.Sel.Name
	}
	return ""
}

func TestTheLintOfGoroutinesSees(t *testing.T) {
	const source = `package p
func bad1() { go func() { work() }() }
func bad2() { go work() }
func bad3() { time.AfterFunc(1, func() { work(); work() }) }
func bad4() { all.Go(func() { work() }) }
func bad5() { go func() { defer func() { gateway.CatchPanic(l, s, nil) }(); work() }() }
func bad6() { go func() { if x { defer gateway.CatchPanic(l, s, nil) }; work() }() }
func bad7() { go other{}.run() }
func good1() { go func() { defer gateway.CatchPanic(l, s, nil); work() }() }
func good2() { go caught() }
func good3() { go s{}.run() }
func good4() { go panics.KeepRunning(ctx, l, s, work) }
func good5() { all.Go(func() { _ = s{}.run() }) }
func good6() { time.AfterFunc(1, s{}.run) }
func good7() { go func() { defer life.Catch(); work() }() }
func work() {}
type s struct{}
func (s) run() int { defer gateway.CatchPanic(l, s, nil); work(); return 0 }
type other struct{}
func (other) run() {}
func caught() { defer close(done); defer panics.Catch(l, s, nil); work() }
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := begunIn(fset, []*ast.File{f})
	if len(found) != 14 {
		t.Errorf("%d of 14 were found", len(found))
	}
	for _, b := range found {
		if want := strings.HasPrefix(b.by, "good"); b.recovers != want {
			t.Errorf("%s: recovers is %v", b.by, b.recovers)
		}
	}
}
