package open

import (
	"errors"
	"fmt"
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
