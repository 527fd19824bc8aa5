package licences

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

const home = "github.com/cinch-layer/cinch"

// linked returns the third-party modules in a release's programs, as "path version".
func linked(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, platform := range []string{"linux", "darwin"} {
		out, err := testenv.GoList([]string{"GOOS=" + platform, "CGO_ENABLED=1"}, "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", home+"/cmd/cinch")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, home) {
				all[line] = true
			}
		}
	}
	return all
}

// named returns the modules that the file has headings for: "## path version (licence)".
func named(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../THIRD_PARTY_LICENSES")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 4 && words[0] == "##" && strings.HasPrefix(words[3], "(") {
			all[words[1]+" "+words[2]] = true
		}
	}
	return all
}

func TestLicencesAreThoseOfWhatIsLinked(t *testing.T) {
	have, want := named(t), linked(t)
	if len(want) < 10 {
		t.Fatalf("the program seems to consist of %d modules", len(want))
	}
	for _, module := range slices.Sorted(maps.Keys(want)) {
		if !have[module] {
			t.Errorf("%s is linked, and not in THIRD_PARTY_LICENSES: run packaging/notice", module)
		}
		delete(have, module)
	}
	for module := range have {
		t.Errorf("%s is in THIRD_PARTY_LICENSES, and not linked: run packaging/notice", module)
	}
}
