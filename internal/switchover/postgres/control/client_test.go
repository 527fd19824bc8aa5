package control

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Any server may answer at the address of an admin page: an error shows only a little of its response.
func TestLongAnswer(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 1<<20), `{"error": "` + strings.Repeat("é", 1<<20) + `"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(text))
		}))
		_, err := (&Client{Admin: server.URL}).State(t.Context())
		server.Close()
		if err == nil || len(err.Error()) > shownBytes+100 || !strings.HasSuffix(err.Error(), "é…") {
			t.Errorf("%.100v", err)
		}
	}
}
