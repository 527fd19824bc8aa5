package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
)

type validator struct{ problems }

func (v *validator) oneOf(path, got string, want ...string) {
	if slices.Contains(want, got) {
		return
	}
	last := len(want) - 1
	hint := "write " + want[last]
	if last > 0 {
		hint = "write " + strings.Join(want[:last], ", ") + " or " + want[last]
	}
	if got == "" {
		v.add(path, hint, "is missing")
		return
	}
	if near := terminal.Nearest(got, want); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	v.add(path, hint, "unknown value %q", got)
}

const maxSocketPath = 107 // bytes, on Linux

func (v *validator) address(path, addr string) {
	if socket, ok := strings.CutPrefix(addr, "unix:"); ok {
		socket = strings.TrimPrefix(socket, "//")
		switch {
		case socket == "":
			v.add(path, "write unix:/path/to/socket", "has no path")
		case socket[0] == '@':
			v.add(path, "write unix:/path/to/socket", "abstract sockets are not supported: they have no permissions")
		case len(socket) > maxSocketPath:
			v.add(path, "choose a shorter path", "the path of a socket has at most %d bytes", maxSocketPath)
		}
		return
	}
	if addr == "" {
		v.add(path, "write host:port or unix:/path", "is missing")
		return
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		var ae *net.AddrError
		reason := "bad address"
		if errors.As(err, &ae) {
			reason = ae.Err
		}
		v.add(path, "write host:port or unix:/path", "%q: %s", addr, reason)
		return
	}
	if !isPort(port) {
		v.add(path, "", "port %q is not between 0 and 65535", port)
	}
}

func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0 && n <= 65535
}

// name checks a name that is required and has to be unique.
func (v *validator) name(path, name string, seen map[string]bool) bool {
	switch {
	case name == "":
		v.add(path, "metrics and logs show the name", "is missing")
	case !nameRegexp.MatchString(name):
		v.add(path, "use up to 64 letters, digits, '_', '-' and '.'", "bad name %q", name)
	case seen[name]:
		v.add(path, "", "duplicate %q", name)
	default:
		seen[name] = true
		return true
	}
	return false
}

// glob refuses a pattern with a [ that no ] closes. To Redis the class ends with the pattern; in a file it is a
// mistake.
func (v *validator) glob(path, glob string) {
	if i := policy.UnclosedClass(glob); i >= 0 {
		v.add(path, `close it, or write \[ for the character`, "%q has a [ without ]", glob[i:])
	}
}

// checkRange checks a limit; 0 stands for the default.
func checkRange[N int | Bytes](v *validator, path string, n, low, high N) {
	if n != 0 && (n < low || n > high) {
		v.add(path, "leave it out for the default", "%v is not between %v and %v", n, low, high)
	}
}

var nameRegexp = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
