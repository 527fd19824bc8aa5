package rollout

import (
	"path"
	"regexp"
	"strings"
)

// remoteCommand returns the command line that runs a command on a machine, with the prefix run. ssh joins its arguments
// with spaces for a remote shell, so they are quoted for ssh; sudo, setpriv, `kubectl exec --` and others
// pass them on unchanged.
func remoteCommand(run []string, command ...string) []string {
	run = run[:len(run):len(run)]
	if len(run) > 0 && path.Base(run[0]) == "ssh" {
		return append(run, shellQuote(command))
	}
	return append(run, command...)
}

// shellQuote quotes a command for a POSIX shell.
func shellQuote(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		if all[i] = w; !safeWord.MatchString(w) {
			all[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(all, " ")
}

// safeWord matches words without a special meaning in shells.
var safeWord = regexp.MustCompile(`^[A-Za-z0-9_%+:,./@-]+$`)
