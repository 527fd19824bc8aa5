package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var install = flag.Bool("install", false, "install and import the modules as users do, from a proxy of this tree")

func TestModulesCanBePublished(t *testing.T) {
	if err := (tree{"../.."}).check(); err != nil {
		t.Error(err)
	}
}

// user is a machine with Go and a proxy that has the release, but without this tree.
type user struct {
	t    *testing.T
	home string
	env  []string
}

func newUser(t *testing.T) user {
	t.Helper()
	if !*install {
		t.Skip("builds all of it anew, which takes minutes of CPU: -install")
	}
	proxy, at := t.TempDir(), t.TempDir()
	x := tree{"../.."}
	version, err := x.version()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.serve(proxy, version, published); err != nil {
		t.Fatal(err)
	}
	return user{t, at, append(os.Environ(), environment(proxy, filepath.Join(at, "cache"))...)}
}

// run runs a command in the user's directory. Leading words with "=" are environment variables.
func (u user) run(words ...string) string {
	u.t.Helper()
	env := u.env
	for strings.Contains(words[0], "=") {
		env, words = append(env, words[0]), words[1:]
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = u.home, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// go install gets the command from the proxy, with libzstd and without a C compiler, and it prints its
// version.
func TestInstall(t *testing.T) {
	u := newUser(t)
	version, err := (tree{"../.."}).version()
	if err != nil {
		t.Fatal(err)
	}
	for _, cgo := range []string{"CGO_ENABLED=0", "CGO_ENABLED=1"} {
		u.run(cgo, "GOBIN="+u.home, "go", "install", "-trimpath", home+"/cmd/cinch@"+version)
		if out := u.run(filepath.Join(u.home, "cinch"), "version"); !strings.Contains(out, strings.TrimPrefix(version, "v")) {
			t.Errorf("%s: cinch version says %q", cgo, out)
		}
	}
}

// programs maps the path of a package to a program that uses it and prints true.
var programs = map[string]string{
	"/codec/grpccodec/all": `package main

import (
	"fmt"

	_ "github.com/cinch-layer/cinch/codec/grpccodec/all"
	"google.golang.org/grpc/encoding"
)

func main() { fmt.Println(encoding.GetCompressor("zstd") != nil) }
`,
	"/clients/go/cinchredis": `package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/clients/go/cinchredis"
	"github.com/redis/go-redis/v9"
)

func main() {
	err := cinchredis.Attach(context.Background(), redis.NewRing(&redis.RingOptions{}), cinchredis.Options{})
	fmt.Println(errors.Is(err, cinchredis.ErrUnsupported))
}
`,
}

// go get adds the compressors for grpc-go, and the hook for go-redis, to a new module.
func TestGet(t *testing.T) {
	for path, program := range programs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			u := newUser(t)
			version, err := (tree{"../.."}).version()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(u.home, "main.go"), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			u.run("go", "mod", "init", "example.com/user")
			u.run("go", "get", home+path+"@"+version)
			if out := u.run("CGO_ENABLED=0", "go", "run", "-trimpath", "."); out != "true\n" {
				t.Errorf("%q", out)
			}
		})
	}
}
