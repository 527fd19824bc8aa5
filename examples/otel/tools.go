package main

import (
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cinch-layer/cinch/test/rig"
)

//go:embed python node
var scripts embed.FS

// errMissing reports that a tool is not installed, so that its sender is skipped.
var errMissing = errors.New("is missing")

// sender is a program that sends. Its arguments are the protocol, the number of rounds, and the milliseconds
// between them.
type sender struct {
	name, protocol string
	command        []string
	variables      []string
}

// senders returns the senders whose tools are installed, and an error for each of the others in missing.
func senders(work string) (all []sender, missing []error, err error) {
	own := filepath.Join(work, "sender")
	if err := rig.Build(own, "github.com/cinch-layer/cinch/examples/otel/sender"); err != nil {
		return nil, nil, err
	}
	all = []sender{{name: "Go, HTTP", protocol: "http", command: []string{own}}, {name: "Go, gRPC", protocol: "grpc", command: []string{own}}}
	for _, make := range []func(work string) (sender, error){pythonSender, nodeSender} {
		s, err := make(work)
		switch {
		case errors.Is(err, errMissing):
			missing = append(missing, err)
		case err != nil:
			return nil, nil, err
		default:
			all = append(all, s)
		}
	}
	return all, missing, nil
}

func pythonSender(work string) (sender, error) {
	s := sender{name: "Python, HTTP", protocol: "http"}
	script, list, err := unpack(work, "python/sender.py", "python/requirements.txt")
	if err != nil {
		return s, err
	}
	dir, err := cached("python", list, func(dir string) error {
		if err := runTool("python3", "-m", "venv", dir); err != nil {
			return err
		}
		return runTool(filepath.Join(dir, "bin", "pip"), "install", "--quiet", "-r", list)
	})
	s.command = []string{filepath.Join(dir, "bin", "python"), script}
	return s, err
}

func nodeSender(work string) (sender, error) {
	s := sender{name: "Node, HTTP", protocol: "http"}
	script, list, err := unpack(work, "node/sender.mjs", "node/package.json")
	if err != nil {
		return s, err
	}
	dir, err := cached("node", list, func(dir string) error {
		text, err := os.ReadFile(list)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "package.json"), text, 0o600); err != nil {
			return err
		}
		return runTool("npm", "install", "--prefix", dir, "--no-package-lock", "--silent", "--no-audit", "--no-fund")
	})
	s.command, s.variables = []string{"node", script}, []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}
	return s, err
}

// unpack writes a script and its list of dependencies.
func unpack(work, script, list string) (scriptFile, listFile string, err error) {
	for _, f := range []struct {
		from string
		to   *string
	}{{script, &scriptFile}, {list, &listFile}} {
		text, err := scripts.ReadFile(f.from)
		if err != nil {
			return "", "", err
		}
		*f.to = filepath.Join(work, filepath.Base(f.from))
		if err := os.WriteFile(*f.to, text, 0o600); err != nil {
			return "", "", err
		}
	}
	return scriptFile, listFile, nil
}

// cached returns a directory that fill populates, once for each content of file.
func cached(name, file string, fill func(dir string) error) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	dir := filepath.Join(base, "cinch-test", fmt.Sprintf("example-otel-%s-%x", name, sum.Sum64()))
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	if err := fill(dir); err != nil {
		return "", err
	}
	return dir, os.WriteFile(done, nil, 0o600)
}

// runTool runs a program and waits for it.
func runTool(name string, args ...string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%s %w", name, errMissing)
	}
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
