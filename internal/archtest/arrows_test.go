package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// listed has the used fields of `go list -json`.
type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
}

// path returns the import path relative to the module, "." for the module's root.
func (p listed) path() string { return relative(p.ImportPath) }

func ours(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// under reports whether path is tree or below it. A tree that ends in "/" excludes itself.
func under(path, tree string) bool {
	if strings.HasSuffix(tree, "/") {
		return strings.HasPrefix(path, tree)
	}
	return path == tree || strings.HasPrefix(path, tree+"/")
}

func underAny(path string, trees []string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return under(path, tree) })
}

// packages lists all packages of all modules.
func packages(t *testing.T) []listed {
	t.Helper()
	all, err := listAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var listAll = sync.OnceValues(func() (all []listed, err error) {
	out, err := testenv.GoList(nil, "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports", module+"/...")
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func has(all []listed, path string) bool {
	return slices.ContainsFunc(all, func(p listed) bool { return p.path() == path })
}

// A list without some module would make every other test here pass.
func TestListIsWhole(t *testing.T) {
	all := packages(t)
	for _, path := range []string{"envelope", "codec", "codec/libzstd", "internal/policy", "internal/gateway"} {
		if !has(all, path) {
			t.Errorf("%s is not listed", path)
		}
	}
}

// layers are ordered from the bottom up. A package imports Cinch's packages only from lower layers and from
// its own. Packages in no layer must be added to one.
var layers = [][]string{
	{"codec"},
	{"envelope/clientformat"}, // below the envelope, which holds the content of such values
	{"envelope"},
	{"internal/system"},
	{"internal/output"},
	{"internal/wire"},
	{"internal/policy"},
	{"internal/config"},
	{"internal/store"},
	{"internal/dictionary"},
	{"internal/estimate"},
	{"internal/gateway/memory", "internal/gateway/trace"},
	{"internal/gateway"},
	{"internal/gateway/http2", "internal/gateway/peer", "internal/gateway/sampled"},
	{"internal/gateway/"}, // the protocols
	{"internal/observe"},
	{"internal/switchover"},
	{"internal/server"},
	{"cmd", "clients", "test", "scripts", "bench", "examples", "packaging", "internal/archtest"},
}

// rooms are the folders directly under internal/.
var rooms = []string{
	"archtest", "config", "dictionary", "estimate", "gateway", "observe", "output", "policy", "server", "store",
	"switchover", "system", "wire",
}

func TestRooms(t *testing.T) {
	var found []string
	for _, p := range packages(t) {
		if rest, ok := strings.CutPrefix(p.path(), "internal/"); ok {
			room, _, _ := strings.Cut(rest, "/")
			found = append(found, room)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(found, rooms) {
		t.Errorf("under internal/ are %v, not %v", found, rooms)
	}
}

// layerOf returns the layer of a path, -1 if it has none. The longest matching name counts:
// "internal/gateway/" is above its parent, and above "internal/gateway/peer".
func layerOf(path string) int {
	layer, longest := -1, 0
	for i := range layers {
		for _, tree := range layers[i] {
			if len(tree) > longest && (path == tree || tree != "." && under(path, tree)) {
				layer, longest = i, len(tree)
			}
		}
	}
	return layer
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from := layerOf(p.path())
		if from < 0 {
			t.Errorf("%s is in no layer: add it to the table", p.path())
		}
		for _, imported := range p.Imports {
			if ours(imported) && layerOf(relative(imported)) > from {
				t.Errorf("%s imports %s, which stands above it", p.path(), relative(imported))
			}
		}
	}
}

// An arrow forbids packages under from, except those under except, to import the packages in to: paths
// relative to the module (".", "codec" …), or import paths.
type arrow struct {
	name   string
	from   []string
	except []string
	to     []string
}

// envelope is the package itself, without those below it.
const envelope = module + "/envelope"

var (
	pure      = []string{"net", "os", "io/fs", "syscall", "log", "database"}
	codecLibs = []string{
		"github.com/klauspost/compress", "github.com/golang/snappy", "github.com/minio/minlz",
		"github.com/pierrec/lz4", "github.com/ulikunitz/xz", "github.com/valyala/gozstd", "compress",
	}
	everything = []string{"envelope", "codec", "cmd", "internal", "test", "bench", "examples"}
)

var forbidden = []arrow{
	{
		name: "wire packages turn bytes into frames and know nothing else",
		from: []string{"internal/wire"},
		to:   append([]string{envelope, "codec", "internal/policy", "internal/gateway", "internal/store"}, pure...),
	},
	{
		name:   "policy is pure",
		from:   []string{"internal/policy"},
		except: []string{"internal/policy/"},
		to:     append([]string{envelope, "time", "math/rand", "internal/wire", "internal/store"}, pure...),
	},
	{
		name: "effort is pure, and a test runs it without a clock",
		from: []string{"internal/policy/budget"},
		to:   append([]string{envelope, "math/rand", "internal"}, pure...),
	},
	{
		name:   "dictionaries are managed through a store's interface, whatever store it is",
		from:   []string{"internal/dictionary", "internal/policy/simulate"},
		except: []string{"internal/dictionary/ruledict"}, // it samples with the packer
		to:     append([]string{"internal/store/", "internal/gateway"}, "net", "os", "io/fs", "syscall", "database"),
	},
	{
		name: "the Redis gateway gets dictionaries by its configuration, and knows no store",
		from: []string{"internal/gateway/redis"},
		to:   []string{"internal/store"},
	},
	{
		name: "foreign formats are bytes to bytes",
		from: []string{"envelope/clientformat"},
		to:   append([]string{envelope, "internal"}, pure...),
	},
	{
		name: "the envelope does no I/O",
		from: []string{"envelope"},
		to:   pure,
	},
	{
		name:   "codec can be imported lightly",
		from:   []string{"codec"},
		except: []string{"codec/grpccodec"},
		to:     []string{envelope, "cmd", "internal", "google.golang.org/grpc", "net"},
	},
	{
		name: "codec/grpccodec knows codec and grpc only",
		from: []string{"codec/grpccodec"},
		to:   []string{envelope, "cmd", "internal"},
	},
	{
		name:   "codec libraries stay behind package codec",
		from:   everything,
		except: []string{"codec", "bench", "internal/estimate/bill", "internal/gateway/trace", "envelope/clientformat"}, // bills and spans are gzipped, and clients' own libraries write streams without a length
		to:     codecLibs,
	},
	{
		name:   "codec libraries stay behind package codec, within its module too",
		from:   []string{"codec/"},
		except: []string{"codec/libzstd", "codec/dict", "codec/codectest", "codec/grpccodec/internal/frame"},
		to:     codecLibs,
	},
	{
		name:   "libzstd is handed over by the binary",
		from:   everything,
		except: []string{"cmd", "test", "bench", "codec/libzstd"},
		to:     []string{"codec/libzstd"},
	},
	{
		name:   "the commands are on top",
		from:   everything,
		except: []string{"cmd"},
		to:     []string{"cmd"},
	},
	{
		name:   "the Redis client is for the gateway's own connections",
		from:   []string{"internal", "envelope"},
		except: []string{"internal/store", "internal/gateway/redis", "internal/switchover/shadow/redis", "internal/archtest/walk"},
		to:     []string{"github.com/redis/go-redis"},
	},
	{
		name:   "the Tarantool client is for our own connections",
		from:   []string{"internal", "envelope"},
		except: []string{"internal/store/tarantool", "internal/archtest/walk"},
		to:     []string{"github.com/tarantool"},
	},
	{
		name: "the gateway for Tarantool gets what it needs of a store by its Config",
		from: []string{"internal/gateway/tarantool"},
		to:   []string{"internal/store"},
	},
	{
		name:   "the MongoDB driver is for our own connections",
		from:   []string{"internal", "envelope"},
		except: []string{"internal/store/mongo", "internal/switchover/shadow/mongo", "internal/archtest/walk"},
		to:     []string{"go.mongodb.org/mongo-driver/v2/mongo"},
	},
}

// matches reports whether an import matches an arrow's target. Paths that exist in the module mean its packages;
// everything else is a tree of external packages.
func matches(imported, target string) bool {
	if target == envelope {
		return imported == envelope
	}
	if ours(imported) {
		return under(relative(imported), target)
	}
	return under(imported, target)
}

func TestForbiddenArrows(t *testing.T) {
	all := packages(t)
	for _, a := range forbidden {
		for _, p := range all {
			if !a.covers(p.path()) {
				continue
			}
			for _, imported := range p.Imports {
				if slices.ContainsFunc(a.to, func(to string) bool { return matches(imported, to) }) {
					t.Errorf("%s: but %s imports %s", a.name, p.path(), imported)
				}
			}
		}
	}
}

func (a arrow) covers(path string) bool { return underAny(path, a.from) && !underAny(path, a.except) }

func TestGatewaysNeverImportEachOther(t *testing.T) {
	for _, p := range packages(t) {
		own := gatewayOf(p.path())
		if own == "" {
			continue
		}
		for _, imported := range p.Imports {
			if other := gatewayOf(relative(imported)); other != "" && other != own {
				t.Errorf("gateway %s imports %s", own, imported)
			}
		}
	}
}

// gatewayOf returns the protocol of a path below internal/gateway, or "" for shared packages.
func gatewayOf(path string) string {
	rest, ok := strings.CutPrefix(path, "internal/gateway/")
	if !ok {
		return ""
	}
	switch protocol, _, _ := strings.Cut(rest, "/"); protocol {
	case "http2", "memory", "peer", "sampled", "trace":
		return ""
	default:
		return protocol
	}
}

// Only gozstd, which codec/libzstd wraps, uses cgo. codec/libzstd also calls functions of the linked library
// that gozstd doesn't offer.
func TestNoCgo(t *testing.T) {
	for _, p := range packages(t) {
		if p.path() != "codec/libzstd" && (len(p.CgoFiles) > 0 || slices.Contains(p.Imports, "C")) {
			t.Errorf("%s uses cgo", p.path())
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	for _, p := range packages(t) {
		files := p.GoFiles
		if len(files) == 0 {
			files = append(p.TestGoFiles, p.XTestGoFiles...)
		}
		if err := hasPackageComment(p.Dir, files); err != nil {
			t.Errorf("%s: %v", p.path(), err)
		}
	}
}

func hasPackageComment(dir string, files []string) error {
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if f.Doc != nil {
			return nil
		}
	}
	return fmt.Errorf("no package comment in %d files", len(files))
}

// The tables are code too: these imports must be found, and these must not.
func TestTheTablesSee(t *testing.T) {
	for _, c := range []struct {
		from, imported string
		want           bool
	}{
		{"internal/wire/resp", "net", true},
		{"internal/wire/resp", "net/url", true},
		{"internal/wire/resp", "network", false},
		{"internal/wire/resp", envelope, true},
		{"internal/wire/resp", module + "/internal/policy", true},
		{"internal/wire/resp", module + "/internal/wire/other", false},
		{"internal/policy", "os", true},
		{"internal/policy", module + "/codec", false},
		{"codec", envelope, true},
		{"codec", module + "/codec/internal/x", false},
		{"codec/dict", "google.golang.org/grpc/encoding", true},
		{"codec/grpccodec", "google.golang.org/grpc/encoding", false},
		{"codec/grpccodec", "github.com/klauspost/compress/s2", true},
		{"codec/grpccodec/internal/frame", "github.com/klauspost/compress/s2", false},
		{"codec/grpccodec/internal/frame", envelope, true},
		{"internal/gateway/redis", "github.com/klauspost/compress/zstd", true},
		{"internal/gateway/redis", "compress/gzip", true},
		{"internal/gateway/redis", module + "/internal/store/redis", true},
		{"codec/libzstd", "github.com/valyala/gozstd", false},
		{"envelope", module + "/codec", false},
		{"envelope", "net/http", true},
		{"envelope", module + "/codec/libzstd", true},
		{"cmd/cinch", module + "/codec/libzstd", false},
		{"internal/observe/admin", module + "/cmd/cinch", true},
	} {
		got := slices.ContainsFunc(forbidden, func(a arrow) bool {
			return a.covers(c.from) && slices.ContainsFunc(a.to, func(to string) bool { return matches(c.imported, to) })
		})
		if got != c.want {
			t.Errorf("%s -> %s: forbidden %v, want %v", c.from, c.imported, got, c.want)
		}
	}
	if layerOf("internal/gateway/redis") <= layerOf("internal/gateway/peer/link") || layerOf("internal/gateway/peer/link") <= layerOf("internal/gateway") || layerOf("internal/nowhere") != -1 {
		t.Error("layers are mixed up")
	}
}
