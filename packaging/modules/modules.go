package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// published lists the directories of the modules that users import or install, dependencies first.
var published = []string{"codec", "codec/libzstd", ".", "clients/go/cinchredis"}

// unpublished lists the directories of the other modules.
var unpublished = []string{"bench", "bench/grpc", "bench/library", "examples", "examples/otel"}

// tree is a checkout of the repository.
type tree struct{ root string }

// file parses the go.mod of a module's directory.
func (t tree) file(dir string) (*modfile.File, error) {
	path := filepath.Join(t.root, dir, "go.mod")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(path, data, nil)
}

// version returns the version at which the modules require each other.
func (t tree) version() (string, error) {
	f, err := t.file(".")
	if err != nil {
		return "", err
	}
	for _, r := range f.Require {
		if r.Mod.Path == f.Module.Mod.Path+"/codec" {
			return r.Mod.Version, nil
		}
	}
	return "", errors.New("go.mod does not require the module codec")
}

// ofVersion returns the path of a module of the tree with the version, and its parsed go.mod.
func (t tree) ofVersion(dir, version string) (module.Version, *modfile.File, error) {
	f, err := t.file(dir)
	if err != nil {
		return module.Version{}, nil, err
	}
	return module.Version{Path: f.Module.Mod.Path, Version: version}, f, nil
}

// check reports what would keep users from getting the modules: invalid file names, files that are too large,
// replacements, which `go install` refuses, and modules of this tree required at another version.
func (t tree) check() error {
	version, err := t.version()
	if err != nil {
		return err
	}
	var all []error
	for _, dir := range published {
		_, f, err := t.ofVersion(dir, version)
		if err != nil {
			return err
		}
		all = append(all, refused(f, version)...)
	}
	for _, dir := range slices.Concat(unpublished, published) {
		if _, err := zip.CheckDir(filepath.Join(t.root, dir)); err != nil {
			all = append(all, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return errors.Join(all...)
}

// refused returns an error for each line of a go.mod that users could not use.
func refused(f *modfile.File, version string) (all []error) {
	for _, r := range f.Replace {
		all = append(all, fmt.Errorf("%s:%d: replace: go install refuses the module; put it in go.work", f.Syntax.Name, r.Syntax.Start.Line))
	}
	for _, r := range f.Require {
		if strings.HasPrefix(r.Mod.Path, home) && r.Mod.Version != version {
			all = append(all, fmt.Errorf("%s:%d: requires %s, others %s", f.Syntax.Name, r.Syntax.Start.Line, r.Mod, version))
		}
	}
	return all
}

// home is the common prefix of all module paths of the tree.
const home = "github.com/cinch-layer/cinch"
