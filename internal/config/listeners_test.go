package config

import (
	"net"
	"strings"
	"testing"
)

// Two addresses count as the same listener if and only if the kernel refuses the second.
func TestSameListenerIsTheKernels(t *testing.T) {
	hosts := []string{"", "0.0.0.0", "127.0.0.1", "localhost", "LOCALHOST", "127.0.0.2", "::ffff:127.0.0.1", "::", "::1"}
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		hosts = hosts[:len(hosts)-1] // without ::1, since the machine has no IPv6
	} else {
		l.Close()
	}
	for _, a := range hosts {
		for _, b := range hosts {
			same, taken := false, false
			for range 5 { // another process may use the port at another address
				first, err := net.Listen("tcp", net.JoinHostPort(a, "0"))
				if err != nil {
					t.Fatal(err)
				}
				_, port, _ := net.SplitHostPort(first.Addr().String())
				second, err := net.Listen("tcp", net.JoinHostPort(b, port))
				if taken = err != nil; !taken {
					second.Close()
				}
				first.Close()
				if same = sameListener(net.JoinHostPort(a, port), net.JoinHostPort(b, port)); same == taken {
					break
				}
			}
			if same != taken {
				t.Errorf("%q and %q: same is %v, taken %v", a, b, same, taken)
			}
		}
	}
	for pair, want := range map[string]bool{
		"h:1 h:1": true, "h:1 H:1": true, "h:1 g:1": false, "h:0 h:0": false, ":1 h:1": true, "h:1 h:2": false,
		"unix:/a unix:///a": true, "unix:/a unix:/b/../a": true, "unix:/a unix:/b": false, "unix:/a h:1": false,
	} {
		a, b, _ := strings.Cut(pair, " ")
		if got := sameListener(a, b); got != want {
			t.Errorf("%s: %v", pair, got)
		}
	}
}
