package config

import "testing"

func TestProxyFrom(t *testing.T) {
	g := Gateway{ProxyProtocol: true, ProxyFrom: []string{"10.1.2.3/8", "192.0.2.7", "::ffff:192.0.2.8", "2001:db8::/32"}}
	got, err := g.ProxyTrusted()
	if err != nil || len(got) != 4 {
		t.Fatal(got, err)
	}
	for i, want := range []string{"10.0.0.0/8", "192.0.2.7/32", "192.0.2.8/32", "2001:db8::/32"} {
		if got[i].String() != want {
			t.Errorf("%s, not %s", got[i], want)
		}
	}
	for _, bad := range []string{"", "balancer", "10.0.0.0/33", "10.0.0.1:80"} {
		if p, err := parseNetwork(bad); err == nil {
			t.Errorf("%q: %s", bad, p)
		}
	}
}
