package rollout

import (
	"path"
	"regexp"
	"strings"
)

// on is a command as it is run on a machine: behind what commands there begin with. ssh joins its arguments by blanks, and a shell there reads that,
// so for ssh they are quoted; sudo, setpriv, `kubectl exec --` and others hand them on as they are.
func on(run []string, command ...string) []string {
	run = run[:len(run):len(run)]
	if len(run) > 0 && path.Base(run[0]) == "ssh" {
		return append(run, quoted(command))
	}
	return append(run, command...)
}

// quoted is a command as a POSIX shell reads it.
func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		if all[i] = w; !harmless.MatchString(w) {
			all[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(all, " ")
}

// harmless is what no shell reads otherwise.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_%+:,./@-]+$`)
