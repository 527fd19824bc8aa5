package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// set changes the version at which the modules require each other, and go.work's replacements.
func (t tree) set(version string) error {
	if semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version: it looks like v0.2.0", version)
	}
	before, err := t.version()
	if err != nil {
		return err
	}
	for _, dir := range slices.Concat(unpublished, published) {
		if err := t.require(dir, version); err != nil {
			return err
		}
	}
	return t.place(before, version)
}

// require changes the go.mod of one module.
func (t tree) require(dir, version string) error {
	f, err := t.file(dir)
	if err != nil {
		return err
	}
	for _, r := range f.Require {
		if strings.HasPrefix(r.Mod.Path, home) {
			if err := f.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(t.root, dir, "go.mod"), modfile.Format(f.Syntax), 0o644)
}

// place changes go.work's replacements from one version to another.
func (t tree) place(before, version string) error {
	path := filepath.Join(t.root, "go.work")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	w, err := modfile.ParseWork(path, data, nil)
	if err != nil {
		return err
	}
	for _, r := range w.Replace {
		if !strings.HasPrefix(r.Old.Path, home) || r.Old.Version != before {
			continue
		}
		if err := w.DropReplace(r.Old.Path, before); err != nil {
			return err
		}
		if err := w.AddReplace(r.Old.Path, version, r.New.Path, ""); err != nil {
			return err
		}
	}
	w.Cleanup()
	return os.WriteFile(path, modfile.Format(w.Syntax), 0o644)
}

// tidy runs `go mod tidy` in each module as users' go commands see it: without a workspace, and with this
// tree's modules from a proxy.
func (t tree) tidy() error {
	version, err := t.version()
	if err != nil {
		return err
	}
	proxy, err := os.MkdirTemp("", "cinch-proxy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(proxy)
	all := slices.Concat(published, unpublished)
	for _, dir := range all {
		// Each time again: the go.mod files tidied so far are part of what the proxy serves.
		if err := t.serve(proxy, version, all); err != nil {
			return err
		}
		if err := t.tidyOne(dir, proxy); err != nil {
			return err
		}
	}
	return nil
}

func (t tree) tidyOne(dir, proxy string) error {
	cache := filepath.Join(proxy, "cache")
	cmd := exec.Command("go", "mod", "tidy")
	cmd.Dir = filepath.Join(t.root, dir)
	cmd.Env = append(os.Environ(), environment(proxy, cache)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	sums := filepath.Join(cmd.Dir, "go.sum")
	if err := dropOurs(sums); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return err
	}
	return dropOurs(sums)
}

// dropOurs removes the sums of this tree's own modules from a go.sum: they change with each line of code, and
// a workspace does not read them.
func dropOurs(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, home) {
			kept.WriteString(line)
		}
	}
	return os.WriteFile(path, []byte(kept.String()), 0o644)
}

// environment returns the variables that make the go command take this tree's modules from a proxy and others
// from the machine's cache or the usual proxy. They are kept in a cache of their own: the machine's must not
// keep a version that does not exist yet.
func environment(proxy, cache string) []string {
	usual, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return nil
	}
	at, remote, _ := strings.Cut(strings.TrimSpace(string(usual)), "\n")
	have := "file://" + filepath.Join(at, "cache", "download")
	return []string{
		"GOWORK=off", "GOPROXY=file://" + proxy + "," + have + "," + remote, "GOMODCACHE=" + cache,
		"GOFLAGS=-modcacherw", "GONOSUMDB=" + home + "," + home + "/*", "GONOSUMCHECK=1",
	}
}
