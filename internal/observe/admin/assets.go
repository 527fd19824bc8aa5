package admin

import (
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/index.html"))

// assetTypes holds the content types of the page's files.
var assetTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// assets returns the page's files, by their paths below it.
func assets() (names []string) {
	err := fs.WalkDir(pageFiles, "page", func(file string, _ fs.DirEntry, err error) error {
		if assetTypes[path.Ext(file)] != "" {
			names = append(names, strings.TrimPrefix(file, "page/"))
		}
		return err
	})
	if err != nil {
		panic(err) // embedded: can only fail by a mistake in the build
	}
	return names
}

func serveAsset(name string) http.HandlerFunc {
	content, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err) // embedded: can only fail by a mistake in the build
	}
	contentType := assetTypes[path.Ext(name)]
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(content)
	}
}
