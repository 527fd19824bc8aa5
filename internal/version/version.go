// Package version says what this program was built from.
package version

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// number and revision are what releases are linked with (packaging/goreleaser.yaml). The go command knows of neither in a
// build from an archive, of a tag only where git has one.
var number, revision string

// Build is what was built.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; empty: not known
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read asks the linker's variables, then the go command, which fills in version and revision; "go run" knows no revision.
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
