package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A run that can't begin leaves no page, so that the next one can use the name. An existing page stays.
func TestShadowLeavesNoEmptyPage(t *testing.T) {
	production := testenv.Redis(t)
	name := filepath.Join(t.TempDir(), "page.html")
	run := func() error {
		o := Mirror{Memory: "1MiB", HTML: name, Config: limited().Config}
		o.Servers = Servers{Listeners: Listeners{Redis: "127.0.0.1:0=" + production.URL()}, Control: production.URL(), Test: production.URL()}
		return o.Run(t.Context(), nil, &bytes.Buffer{}, &bytes.Buffer{})
	}
	for range 2 {
		if err := run(); !errors.Is(err, store.ErrUsage) {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the page is left: %v", err)
		}
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}
