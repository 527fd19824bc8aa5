package page

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// acting is a gateway whose page has a token and may perform actions. Its Redis holds values already.
type acting struct {
	*testenv.GatewayServer
	*world   // with clients of the first gateway only
	direct   *goredis.Client
	counting sync.Mutex // locked while a value is written or counters are read
}

const (
	storedKeys = 3000
	menus      = "- {name: menus, key: \"menu:*\", setting: zstd-1, min_size: 64}\n"
)

func beginActing(t *testing.T) *acting {
	t.Helper()
	server := testenv.Redis(t)
	a := &acting{direct: goredis.NewClient(&goredis.Options{Addr: server.Addr, ReadTimeout: patience})}
	t.Cleanup(func() { _ = a.direct.Close() })
	r := rand.New(rand.NewPCG(11, 11))
	if _, err := a.direct.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
		for i := range storedKeys {
			p.Set(t.Context(), fmt.Sprint("menu:stored-", i), document(r), 0)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.GatewayServer = testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: server.Addr, Admin: fmt.Sprintf("token_file: %q", secret),
		Rules: menus,
		// The latency limit of a minute gives a busy machine time to reach the pause.
		Settings: "pack: {background: true, keys_per_second: 50, max_latency: 1m}",
	})
	a.world = &world{URL: "http://" + a.Admin + "/", redis: goredis.NewClient(&goredis.Options{Addr: a.Addr, ReadTimeout: patience})}
	t.Cleanup(func() { _ = a.redis.Close() })
	return a
}

// Every action of the page's buttons works with the token, and is refused without it.
func TestActions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers and Chromium")
	}
	besides(t)
	b, a := chromium(t), beginActing(t)
	stranger := b.open(t, view{url: a.URL, width: 1440, height: 900, password: "not the token, as it happens"})
	tab := b.open(t, view{url: a.URL, width: 1440, height: 900, password: token})
	t.Run("packer", func(t *testing.T) { pauseAndResume(t, tab.in(t), stranger.in(t), a) })
	t.Run("what if", func(t *testing.T) { forecasts(t, tab.in(t), stranger.in(t), a) })
}

const (
	pauses  = `[data-action="pack-pause"]`
	resumes = `[data-action="pack-resume"]`
)

// pauseAndResume pauses the packer with its button, checks that no more keys are packed, and resumes it
// from the keyboard.
func pauseAndResume(t *testing.T, w, stranger *tab, a *acting) {
	stranger.becomes("a button", fmt.Sprintf("document.querySelector(%q)", pauses))
	stranger.click(pauses)
	stranger.becomes("that it is refused", `document.querySelector("[data-said]").innerText.startsWith("Refused")`)
	if a.Metric(t, "cinch_pack_paused") != 0 {
		t.Fatal("a wrong token has paused the packer")
	}
	stranger.picture("page-refused")

	w.becomes("a pass under way", `document.querySelector("[data-key='Stored already']")?.innerText.includes("packing")`)
	w.click(pauses)
	w.becomes("a pause", `document.querySelector("[data-key='Stored already']").innerText.includes("paused since")`)
	w.becomes("the other button", fmt.Sprintf("document.querySelector(%q)", resumes))
	w.accessible("packing is paused")
	w.picture("page-paused")
	if a.Metric(t, "cinch_pack_paused") != 1 {
		t.Error("/metrics reports no pause")
	}
	still := a.Metric(t, "cinch_pack_keys_total")
	if still >= storedKeys {
		t.Fatal("all was packed before the pause")
	}
	w.updates(2)
	if now := a.Metric(t, "cinch_pack_keys_total"); now > still+256 { // the batch of keys in progress
		t.Errorf("while it is paused the packer looked at %v keys, and then %v", still, now)
	}
	a.Configure(t, "pack: {background: true, keys_per_second: 0}", menus)
	if err := a.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pass has ended, for one without a limit", func() bool { return a.Metric(t, "cinch_pack_running") == 0 })
	stranger.becomes("other clients' pages say so", fmt.Sprintf("document.querySelector(%q)", resumes))

	w.eval(fmt.Sprintf("document.querySelector(%q).focus()", resumes), nil)
	w.press("Enter")
	w.becomes("that it goes on", fmt.Sprintf(`document.querySelector(%q)`, pauses))
	if !w.is(`document.activeElement.matches("[data-action]")`) {
		t.Error("the keyboard has lost its place")
	}
	w.becomes("the end of the pass", `document.querySelector("[data-key='Stored already']").innerText.includes("last pass ended")`)
	sealed := 0
	for i := range storedKeys {
		head, err := a.direct.GetRange(t.Context(), fmt.Sprint("menu:stored-", i), 0, 15).Result()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(head, `{"id":`) {
			sealed++
		}
	}
	if sealed != storedKeys {
		t.Errorf("%d of %d values are sealed", sealed, storedKeys)
	}
	stranger.nothingStolen()
}

// updates waits for n more updates of the page.
func (w *tab) updates(n int) {
	w.t.Helper()
	w.eval(fmt.Sprintf(`new Promise((done) => {
		let seen = 0;
		const watch = new MutationObserver(() => { if (++seen === %d) { watch.disconnect(); done(null) } });
		watch.observe(document.getElementById("updated"), { childList: true, characterData: true, subtree: true });
	})`, n), nil)
}

// nothingStolen fails the test if an action of the tab was not refused.
func (w *tab) nothingStolen() {
	w.t.Helper()
	for _, r := range w.seen().Requests {
		if r.Method == "POST" && r.Status != 401 {
			w.t.Errorf("%s %s: %d", r.Method, r.URL, r.Status)
		}
	}
}
