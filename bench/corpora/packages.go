package corpora

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// packagesBefore is the end of the corpus: the registry gets new versions every day. bench/library/fetch
// repeats it.
const packagesBefore = "2026-10-01"

// Packages loads npm's records of package versions, the last of each minor version; the source is the owner
// of the repository. bench/library/fetch downloads them.
func Packages(dir string) (out []Record, err error) {
	root := filepath.Join(dir, "npm-records/cache/_cacache/content-v2")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 && text[0] == '{' {
			out = append(out, versions(text)...)
		}
		return err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("no packages in %s", root)
	}
	// The files are named by their hashes, which change with each new version.
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), slices.Compare(a.Value, b.Value))
	})
	return out, err
}

// versions returns the records of one package.
func versions(text []byte) (out []Record) {
	var doc struct {
		Versions map[string]json.RawMessage
		Time     map[string]any
	}
	if json.Unmarshal(text, &doc) != nil {
		return nil
	}
	last := map[string]string{} // version by minor version
	for version := range doc.Versions {
		at, _ := doc.Time[version].(string)
		if at == "" || at >= packagesBefore || strings.Contains(version, "-") {
			continue
		}
		minor := version[:max(0, strings.LastIndexByte(version, '.'))]
		if was, _ := doc.Time[last[minor]].(string); at > was {
			last[minor] = version
		}
	}
	for _, version := range last {
		raw := doc.Versions[version]
		out = append(out, Record{packageOwner(raw), compact(raw)})
	}
	return out
}

var ownerOnGitHub = regexp.MustCompile(`github\.com[/:]([^/]+)/`)

// packageOwner returns the owner of the source's GitHub repository, or else the package's name.
func packageOwner(raw json.RawMessage) string {
	var record struct {
		Name       string
		Repository struct{ URL string }
	}
	_ = json.Unmarshal(raw, &record) // some old records have a string there
	if m := ownerOnGitHub.FindStringSubmatch(record.Repository.URL); m != nil {
		return m[1]
	}
	return record.Name
}
