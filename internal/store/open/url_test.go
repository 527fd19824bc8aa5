package open

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/store"
)

// A password with an unescaped character is never shown, wherever it cuts the URL.
func TestUnescapedPasswords(t *testing.T) {
	for _, url := range []string{
		"redis://u:s3?cret@h", "redis://u:53?cret@h", "redis://u:53/cret@h", "redis://u:53#cret@h", "redis://u:s3?db=cret@h", "redis://u:s3",
		"unix://u:53?cret@/run/s", "redis+cluster://u:s3?cret@h", "redis+sentinel://u:s3?cret@h/m",
		"tarantool://u:s3?cret@one,two", "tarantool://u:53?cret@one",
	} {
		_, refused := ParseLocation(url, nil)
		_, err := OpenAccess(t.Context(), url)
		if err == nil || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%s: %v", url, err)
		}
		g := config.RedisGateway("store", config.DefaultListen, url, nil)
		if Kind(url) == Tarantool {
			g.Protocol = Tarantool
		}
		_, config := config.Load("", []config.Gateway{g})
		for what, text := range map[string]any{"location": refused, "access": err, "configuration": config, "redacted": Redact(url)} {
			if text := strings.ReplaceAll(strings.ToLower(fmt.Sprint(text)), "%3f", ""); strings.Contains(text, "s3") || strings.Contains(text, "53") || strings.Contains(text, "cret") {
				t.Errorf("%s: %s shows the password: %s", url, what, text)
			}
		}
	}
}

// A database is the URL's path or ?db=, as gateways and client libraries read it. --db replaces it.
func TestDatabaseOfURL(t *testing.T) {
	for _, c := range []struct {
		url    string
		flags  []int
		want   []int
		server string
	}{
		{"redis://u:p@h", nil, nil, "redis://u:p@h"},
		{"redis://u:p@h/0", nil, []int{0}, "redis://u:p@h"},
		{"redis://h?db=0", nil, []int{0}, "redis://h"},
		{"redis://h/?db=2", nil, []int{2}, "redis://h/"},
		{"redis://h?db=2", []int{3, 1}, []int{1, 3}, "redis://h"},
		{"redis://h?db=", nil, nil, "redis://h?db="},
		{"rediss://h?db=2&timeout=1", nil, []int{2}, "rediss://h?timeout=1"},
		{"unix://u:p@/run/r.sock?db=1", nil, []int{1}, "unix://u:p@/run/r.sock"},
		{"unix:///run/r.sock", nil, nil, "unix:///run/r.sock"},
		{"redis+cluster://h,i", nil, nil, "redis+cluster://h,i"},
	} {
		l, err := ParseLocation(c.url, c.flags)
		if err != nil || !slices.Equal(l.Databases, c.want) || (l.Databases == nil) != (c.want == nil) || l.URL != c.server {
			t.Errorf("%s: %+v, %v", c.url, l, err)
		}
	}
	for _, url := range []string{"redis://h?db=x", "redis://h?db=-1", "redis://h/1?db=2", "redis://h?db=1&db=2", "unix:///run/s?db=x"} {
		if l, err := ParseLocation(url, nil); !errors.Is(err, store.ErrUsage) || !strings.Contains(err.Error(), "database") {
			t.Errorf("%s: %+v, %v", url, l, err)
		}
	}
	if got, err := GatewayUpstream("unix:///run/r.sock?db=1"); err != nil || got != "unix:///run/r.sock" {
		t.Error(got, err)
	}
}
