package rollout

import (
	"path"
	"regexp"
	"strings"
)

// on returns the command line that runs a command on a machine, with the prefix run. ssh joins its arguments
// with spaces for a remote shell, so they are quoted for ssh; sudo, setpriv, `kubectl exec --` and others
// pass them on unchanged.
func on(run []string, command ...string) []string {
	run = run[:len(run):len(run)]
	if len(run) > 0 && path.Base(run[0]) == "ssh" {
		return append(run, quoted(command))
	}
	return append(run, command...)
}

// quoted quotes a command for a POSIX shell.
func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		if all[i] = w; !harmless.MatchString(w) {
			all[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(all, " ")
}

// harmless matches words without a special meaning in shells.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_%+:,./@-]+$`)
