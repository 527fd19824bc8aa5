package cli

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page shows a run, and its switch turns the mirror off: only with the token, and not from another site's
// page.
func TestPageTurnsTheMirrorOff(t *testing.T) {
	w, _, _ := newWatcher(t)
	const token = "0123456789abcdef0123"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	address, closing, err := Page{Listen: "127.0.0.1:0", TokenFile: file}.open(w.Run, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer closing()
	ask := func(method, path string, header ...string) (int, string) {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	for path, part := range map[string]string{
		"/": "Turn the mirror off", "/page.js": "api/actions/off", "/page.css": "body", "/api/report": `"outcome":"INCONCLUSIVE"`,
		"/api/report.txt": "INCONCLUSIVE", "/report": "Basis of the verdict", "/metrics": "cinch_shadow_mirroring 1", "/healthz": "ok",
	} {
		if code, body := ask("GET", path); code != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("%s: %d, %.200s", path, code, body)
		}
	}
	right := []string{"Authorization", "Bearer " + token}
	for _, c := range []struct {
		header []string
		want   int
	}{{nil, 401}, {append(right, "Origin", "http://evil.example"), 403}, {append(right, "Sec-Fetch-Site", "cross-site"), 403}} {
		if code, _ := ask("POST", "/api/actions/off", c.header...); code != c.want || w.Run.IsOff() {
			t.Errorf("%v: %d", c.header, code)
		}
	}
	if code, _ := ask("POST", "/api/actions/off", right...); code != http.StatusNoContent {
		t.Errorf("the switch: %d", code)
	}
	<-w.Run.Over()
	if r := w.Run.Report(); r.Ended != "the admin page" || r.Outcome != "INCONCLUSIVE" {
		t.Errorf("%s, ended by %q", r.Outcome, r.Ended)
	}
	if _, body := ask("GET", "/metrics"); !strings.Contains(body, "cinch_shadow_mirroring 0") {
		t.Error("the metrics say that the mirror is on")
	}
}
