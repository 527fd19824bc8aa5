package rig

import (
	"os"
	"path/filepath"
)

// Mongod returns the path of the mongod that scripts/servers installs, or else a name to look up in PATH.
func Mongod() string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	path := filepath.Join(cache, "cinch-test", "mongod-6.0.5", "mongod")
	if _, err := os.Stat(path); err != nil {
		return "mongod"
	}
	return path
}
