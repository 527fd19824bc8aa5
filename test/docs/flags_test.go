package docs

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	command = regexp.MustCompile("`(cinch [^`]+)`|(?m)^ *(?:go run \\./cmd/|sudo )?(cinch [a-z][^\n#|&]*)")
	flag    = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
	verb    = regexp.MustCompile(`^[a-z]+$`)
)

// Command lines in the docs have flags that there are.
func TestFlags(t *testing.T) {
	cinch := testenv.Cinch(t)
	helps := map[string]string{}
	count := 0
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" {
			continue // it may speak of flags that are gone
		}
		for _, m := range command.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
			line := m[1] + m[2]
			verbs := verbsOf(line)
			if _, known := helps[verbs]; !known {
				helps[verbs] = help(cinch, verbs)
			}
			for _, f := range flag.FindAllStringSubmatch(line, -1) {
				count++
				if !strings.Contains(helps[verbs], f[1]+" ") && !strings.Contains(helps[verbs], f[1]+"\n") {
					t.Errorf("%s: cinch %s has no %s: %s", page, verbs, f[1], line)
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d flags were found", count)
	}
}

// verbsOf are the words of the command, without its arguments.
func verbsOf(line string) string {
	words := strings.Fields(line)[1:]
	if len(words) == 0 {
		return ""
	}
	verbs := words[0]
	if group := verbs == "dict" || verbs == "config" || verbs == "rollout" || verbs == "shadow" || verbs == "tarantool"; group && len(words) > 1 && verb.MatchString(words[1]) {
		verbs += " " + words[1]
	}
	return verbs
}

func help(cinch, verbs string) string {
	out, _ := exec.Command(cinch, append(strings.Fields(verbs), "--help")...).CombinedOutput()
	return string(out)
}
