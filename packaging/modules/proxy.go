package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// serve writes the modules in directories of the tree, at a version, into a directory that has the layout of a module
// proxy (https://go.dev/ref/mod#goproxy-protocol).
func (t tree) serve(to, version string, dirs []string) error {
	for _, dir := range dirs {
		m, f, err := t.ofVersion(dir, version)
		if err != nil {
			return err
		}
		files, err := versions(to, m)
		if err != nil {
			return err
		}
		if err := os.WriteFile(files+".mod", modfile.Format(f.Syntax), 0o644); err != nil {
			return err
		}
		if err := t.pack(files, dir, m); err != nil {
			return err
		}
	}
	return nil
}

// versions creates a module's version directory in a proxy, with its list, and returns the path of this
// version's files without extension.
func versions(to string, m module.Version) (string, error) {
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(to, path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Join(dir, m.Version), os.WriteFile(filepath.Join(dir, "list"), []byte(m.Version+"\n"), 0o644)
}

// pack writes a module's .zip and .info files.
func (t tree) pack(files, dir string, m module.Version) error {
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(files+".info", info, 0o644); err != nil {
		return err
	}
	out, err := os.Create(files + ".zip")
	if err != nil {
		return err
	}
	defer out.Close()
	if err := zip.CreateFromDir(out, m, filepath.Join(t.root, dir)); err != nil {
		return err
	}
	return out.Close()
}
