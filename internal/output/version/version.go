// Package version reports what this program was built from.
package version

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// number and revision are set by the linker in releases (packaging/goreleaser.yaml). In other builds they come
// from the go command, which knows neither in a source archive, and the number only in a tagged checkout.
var number, revision string

// Build describes the build.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; empty: unknown
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns the version and revision set by the linker or, without these, recorded by the go command. "go run"
// records no revision.
func Read() Build {
	b := Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			b.Version = v
		}
		b.Revision = revisionOf(info)
	}
	b.Version, b.Revision = cmp.Or(number, b.Version), cmp.Or(revision, b.Revision)
	return b
}

func revisionOf(info *debug.BuildInfo) string {
	of, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			of = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	if of == "" {
		return ""
	}
	return of + modified
}
