package page

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// everywhere checks a page that a command has written, in all sizes.
func everywhere(t *testing.T, b *browser, file, name string) *tab {
	t.Helper()
	w := b.open(t, view{url: "file://" + file, width: 1440, height: 900})
	w.fits(t, name)
	for _, s := range sizes[:codectest.Amount(1, 1, 2)] {
		w.resize(s.width, s.height)
		for _, dark := range themes(s) {
			w.theme(dark)
			w.accessible(fmt.Sprintf("%s, %d px, %s", name, s.width, scheme(dark)))
		}
	}
	w.nothingForeign()
	return w
}

// The page that cinch plan --html writes.
func TestPlanPage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Chromium")
	}
	besides(t)
	b, dir, r := chromium(t), t.TempDir(), rand.New(rand.NewPCG(3, 3))
	data := filepath.Join(dir, "data")
	for i := range 100 {
		for name, text := range map[string]string{"orders/%d.json": document(r), "sessions-of-customers-with-a-long-name/%d.txt": document(r)[:200], "noise/%d.jpg": noise(r, 900)} {
			path := filepath.Join(data, fmt.Sprintf(name, i))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := filepath.Join(dir, "plan.html")
	args := []string{"plan", data, "--html", file, "--link", "100mbit,1.5ms", "--zones", "3", "--quiet"}
	if !testenv.IsFull() {
		args = append(args, "--candidates", "lz4,snappy,zstd-1,zstd-3,zstd-3+dict,brotli-5")
	}
	testenv.Command(t, testenv.Cinch(t), args...)
	w := everywhere(t, b, file, "plan")
	header := w.text(`[...document.querySelectorAll("thead")].map((h) => h.textContent).join(" ")`)
	for _, want := range []string{"µs compress", "µs open"} {
		if !strings.Contains(strings.Join(strings.Fields(header), " "), want) {
			t.Errorf("no column is called %q: %s", want, header)
		}
	}
}

func noise(r *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	return string(text)
}

// reportPage checks the page that cinch report --html writes.
func reportPage(t *testing.T, b *browser, world *world) {
	file := filepath.Join(t.TempDir(), "report.html")
	eventually(t, "the history has something to report", func() bool {
		return exec.Command(testenv.Cinch(t), "report", world.Admin, "--html", file, "--bill", "1834.20", "--quiet").Run() == nil
	})
	w := everywhere(t, b, file, "report")
	for _, name := range []string{"test", "sessions", "events", "documents"} {
		if !w.is(fmt.Sprintf(`document.body.innerText.includes(%q)`, name)) {
			t.Errorf("the report does not name %s", name)
		}
	}
}
