package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"
)

// uPlot draws the page's graphs: version 1.6.32, https://www.npmjs.com/package/uplot, MIT, as published
// (dist/). Its directory isn't named vendor, since such directories are left out of modules.
var uPlot = map[string]string{
	"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
	"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	"LICENSE":           "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}

func TestLibraryIsAsPublished(t *testing.T) {
	files, err := pageFiles.ReadDir("page/uplot")
	if err != nil || len(files) != len(uPlot) {
		t.Fatalf("%v: %v", files, err)
	}
	for _, f := range files {
		content, err := pageFiles.ReadFile("page/uplot/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != uPlot[f.Name()] {
			t.Errorf("%s: sha256 %x", f.Name(), sum)
		}
	}
	licence, err := pageFiles.ReadFile("page/uplot/LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	notice, err := os.ReadFile("../../../THIRD_PARTY_LICENSES")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(notice), "## uPlot 1.6.32,") || !strings.Contains(string(notice), string(licence)) {
		t.Error("THIRD_PARTY_LICENSES lacks it: run packaging/notice")
	}
}

// The page explains every class of errors in docs/METRICS.md.
func TestErrorsAreExplained(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	explained, err := pageFiles.ReadFile("page/errors.js")
	if err != nil {
		t.Fatal(err)
	}
	tables := strings.Split(string(doc), "| class in `cinch_errors_total` | meaning |\n")[1:]
	if len(tables) == 0 {
		t.Fatal("docs/METRICS.md has no table of classes")
	}
	for _, table := range tables {
		rows, _, _ := strings.Cut(table, "\n\n")
		for row := range strings.Lines(rows) {
			for _, class := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.SplitN(row, "|", 3)[1], -1) {
				if !strings.Contains(string(explained), "\n  "+class[1]+":") {
					t.Errorf("errors.js has nothing about %s", class[1])
				}
			}
		}
	}
}

// maxPage limits what a browser loads of the page before it requests figures.
const maxPage = 150 << 10

// All files that the page refers to exist, are served, and are small.
func TestPageIsWholeAndSmall(t *testing.T) {
	h := New(sampleOptions(t)).Handler()
	_, page := get(t, h, "GET", "/")
	size, named := len(page), page
	for _, name := range assets() {
		resp, body := get(t, h, "GET", "/"+name)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %s", name, resp.Status)
		}
		size += len(body)
		if strings.HasSuffix(name, ".js") {
			named += body
		}
	}
	for _, name := range assets() {
		if !strings.Contains(named, `"`+name+`"`) && !strings.Contains(named, `"./`+name+`"`) {
			t.Errorf("nothing loads %s", name)
		}
	}
	if size > maxPage {
		t.Errorf("the page has %d bytes, of at most %d", size, maxPage)
	}
	if resp, _ := get(t, h, "GET", "/uplot/LICENSE"); resp.StatusCode != 404 {
		t.Errorf("what the page does not load is served: %s", resp.Status)
	}
}
