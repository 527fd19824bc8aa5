package testenv

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Outcomes maps each test of a suite to its outcome: pass, fail or skip.
type Outcomes map[string]string

func (o Outcomes) String() string {
	n := map[string]int{}
	for _, outcome := range o {
		n[outcome]++
	}
	return fmt.Sprintf("%d tests: %d pass, %d fail, %d skip", len(o), n["pass"], n["fail"], n["skip"])
}

// Differing returns the sorted names of the tests whose outcomes differ.
func (o Outcomes) Differing(other Outcomes) (names []string) {
	for name := range o {
		if other[name] != o[name] {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, ok := o[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ReadJUnit reads the file that pytest wrote with --junitxml. An expected failure counts as passed.
func ReadJUnit(t testing.TB, file string) Outcomes {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		Type string `xml:"type,attr"`
	}
	var report struct {
		Cases []struct {
			Class   string   `xml:"classname,attr"`
			Name    string   `xml:"name,attr"`
			Failure []result `xml:"failure"`
			Error   []result `xml:"error"`
			Skipped []result `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	o := Outcomes{}
	for _, c := range report.Cases {
		outcome := "pass"
		switch {
		case len(c.Failure)+len(c.Error) > 0:
			outcome = "fail"
		case len(c.Skipped) > 0 && c.Skipped[0].Type != "pytest.xfail":
			outcome = "skip"
		}
		if name := c.Class + "." + c.Name; o[name] != "fail" {
			o[name] = outcome
		}
	}
	return o
}

// PytestNames returns pytest's expression (-k) for the functions of tests that ReadJUnit named.
func PytestNames(names []string) string {
	var functions []string
	for _, n := range names {
		function, _, _ := strings.Cut(n[strings.LastIndexByte(n, '.')+1:], "[")
		functions = append(functions, function)
	}
	slices.Sort(functions)
	return strings.Join(slices.Compact(functions), " or ")
}

// ReadGoTest reads the output of go test -json. Tests are named "package.Test" with the last element of the
// package's path, or "Test" if the output names no package.
func ReadGoTest(out []byte) Outcomes {
	o := Outcomes{}
	for line := range bytes.Lines(out) {
		var event struct{ Action, Package, Test string }
		if json.Unmarshal(line, &event) != nil || event.Test == "" {
			continue
		}
		switch event.Action {
		case "pass", "fail", "skip":
			if event.Package != "" {
				event.Test = path.Base(event.Package) + "." + event.Test
			}
			o[event.Test] = event.Action
		}
	}
	return o
}

// GoTestNames returns a pattern (-run) that matches the top-level tests of those that ReadGoTest named.
func GoTestNames(names []string) string {
	var tests []string
	for _, n := range names {
		test, _, _ := strings.Cut(n, "/")
		tests = append(tests, regexp.QuoteMeta(test[strings.IndexByte(test, '.')+1:]))
	}
	slices.Sort(tests)
	return "^(" + strings.Join(slices.Compact(tests), "|") + ")$"
}
