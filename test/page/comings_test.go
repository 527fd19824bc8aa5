package page

import (
	"net/http"
	"strings"
	"testing"
)

// comings stops and restarts a server behind a gateway, then the process itself. The page must report it
// and recover.
func comings(t *testing.T, w *tab, world *world) {
	world.other.Kill()
	w.becomes("that sessions does not serve", `document.querySelector("[data-gateway=sessions]").innerText.includes("does not serve")`)
	w.becomes("two that don't", `document.getElementById("state").innerText.includes("2 of 5 gateways not serving")`)
	if err := world.other.Restart(); err != nil {
		t.Fatal(err)
	}
	w.becomes("that sessions serves", `!document.querySelector("[data-gateway=sessions]").innerText.includes("does not serve")`)
	w.picture("page-server-came-back")

	world.Kill()
	w.becomes("that there is no answer", `document.getElementById("state").innerText.includes("no answer")`)
	if !w.is(`document.querySelector("main").classList.contains("stale")`) {
		t.Error("old figures look like new ones")
	}
	w.picture("page-process-gone")
	w.accessible("the process is gone")
	if err := world.Restart(); err != nil {
		t.Fatal(err)
	}
	w.becomes("figures of a new process", `!document.querySelector("main").classList.contains("stale") && document.querySelector("[data-gateway=test] [data-figure=raw_bytes], [data-gateway=test] [data-figure=saved_bytes]").dataset.value === "0"`)
	if strings.Contains(w.text("document.body.innerText"), "NaN") || strings.Contains(w.text("document.body.innerText"), "undefined") {
		t.Errorf("the page says\n%s", w.text("document.body.innerText"))
	}
	eventually(t, "clients are connected again", func() bool { return world.work(t.Context(), 1) == nil })
	if err := world.work(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	equalFigures(t, w, world)
}

// crowded opens a page while the limit of event listeners is reached: the page must poll instead.
func crowded(t *testing.T, b *browser, world *world) {
	for range 64 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, world.URL+"api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode == http.StatusServiceUnavailable {
			break
		}
	}
	w := b.open(t, view{url: world.URL, width: 1440, height: 900})
	w.becomes("five rows", inRows+".length === 5")
	events := 0
	for _, r := range w.seen().Requests {
		if strings.HasSuffix(r.URL, "/api/events") && r.Status == http.StatusServiceUnavailable {
			events++
		}
	}
	if events == 0 {
		t.Error("another event stream was accepted")
	}
	was := w.text(`document.getElementById("updated").innerText`)
	w.becomes("a later time", `document.getElementById("updated").innerText !== `+"`"+was+"`")
}
