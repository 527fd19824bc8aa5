package page

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

const maxForecastError = 0.05

// enough returns the number of values to measure a ratio on: for these documents, 300 give it within 2 %.
func enough() int { return codectest.Amount(300, 300, 1000) }

// choice is a setting in the page's data.
type choice struct {
	Setting, Codec string
	Level          int
	Ratio          float64
	Current, Leave bool
	MinSize        int `json:"min_size"`
}

type whatIfRule struct {
	Rule    string
	Sampled int
	Choices []choice
	Applied *struct {
		Setting string
		Values  int
	}
}

func (a *acting) whatIf(t *testing.T) whatIfRule {
	t.Helper()
	var doc struct {
		Gateways []struct{ Rules []whatIfRule }
	}
	testenv.AdminJSON(t, a.Admin, "/api/whatif", &doc)
	if len(doc.Gateways) != 1 || len(doc.Gateways[0].Rules) != 1 {
		t.Fatalf("%+v", doc)
	}
	return doc.Gateways[0].Rules[0]
}

// writing starts a client that writes documents until stop is called.
func (a *acting) writing(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	r := rand.New(rand.NewPCG(21, 21))
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			a.counting.Lock()
			err := a.redis.Set(ctx, fmt.Sprint("menu:", i%5000), document(r), 0).Err()
			a.counting.Unlock()
			if err != nil && ctx.Err() == nil {
				t.Errorf("a client: %v", err)
				return
			}
			if i%10 == 9 {
				time.Sleep(10 * time.Millisecond) // this test measures the forecast, not the load
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// forecasts applies settings with their buttons and compares each forecast with the result, as the page and
// as /metrics show it.
func forecasts(t *testing.T, w, stranger *tab, a *acting) {
	stop := a.writing(t)
	defer stop()
	for _, tab := range []*tab{w, stranger} {
		tab.unfold(true)
		tab.becomes("choices", `document.querySelectorAll(".whatif [data-key^='choice ']").length > 3`)
	}
	eventually(t, "enough values are sampled", func() bool { return a.whatIf(t).Sampled >= enough() })
	w.becomes("buttons", `document.querySelector("[data-action='whatif-apply']")`)
	w.accessible("what if")
	w.picture("page-what-if")
	leftAlone(t, w, a.whatIf(t))

	settings := a.whatIf(t).Choices
	lz4 := settings[slices.IndexFunc(settings, func(c choice) bool { return c.Codec == "lz4" })]
	stranger.click(applies(lz4))
	stranger.becomes("that it is refused", `document.querySelector(".whatif [data-said]").innerText.startsWith("Refused")`)
	if a.whatIf(t).Applied != nil {
		t.Fatal("a wrong token has applied a setting")
	}
	stranger.nothingStolen()
	stranger.close()
	zstd := settings[slices.IndexFunc(settings, func(c choice) bool { return c.Codec == "zstd" && c.Level == 9 })]
	tried := []choice{zstd}
	for _, c := range codectest.Amount(tried, tried, []choice{lz4, zstd}) {
		forecast(t, w, a, c)
	}
	stop()
	undone(t, w, a, lz4)
}

func applies(c choice) string {
	return fmt.Sprintf(`[data-action="whatif-apply"][data-choice=%q]`, c.Setting)
}

// leftAlone checks that the page offers to leave a rule's values uncompressed, with a ratio of 1.
func leftAlone(t *testing.T, w *tab, r whatIfRule) {
	t.Helper()
	i := slices.IndexFunc(r.Choices, func(c choice) bool { return c.Leave })
	if i < 0 || r.Choices[i].Ratio != 1 {
		t.Fatalf("nothing is not among the choices: %+v", r.Choices)
	}
	if row := w.text(fmt.Sprintf(`[...document.querySelectorAll(".whatif tr")].find((r) => r.innerText.includes(%q))?.innerText ?? ""`, r.Choices[i].Setting)); row == "" {
		t.Error("nothing is not on the page")
	}
}

// forecast applies one setting and compares the forecast with the result.
func forecast(t *testing.T, w *tab, a *acting, c choice) {
	t.Helper()
	of := func() (raw, stored float64) {
		a.counting.Lock() // otherwise a value written meanwhile would be in some of the sums only
		defer a.counting.Unlock()
		c := countedAt(t, a.Admin)
		left := c.sum("cinch_value_left_bytes_total")
		return c.sum("cinch_value_raw_bytes_total") + left, c.sum("cinch_value_stored_bytes_total") + left
	}
	w.becomes("a button for "+c.Setting, fmt.Sprintf("document.querySelector(%q)", applies(c)))
	w.click(applies(c))
	w.becomes("that it is in use", fmt.Sprintf(`document.querySelector(".whatif [data-key='fact'] strong")?.innerText === %q`, c.Setting))
	since := func(n int) (values int) {
		t.Helper()
		eventually(t, "enough values since", func() bool {
			r := a.whatIf(t)
			if r.Applied != nil {
				values = r.Applied.Values
			}
			return values >= n
		})
		return values
	}
	before := since(enough()) // counters may lag behind and still contain values of the previous setting
	raw, stored := of()
	since(before + enough()) // on a busy machine there were many more before
	rawNow, storedNow := of()
	counted := (rawNow - raw) / (storedNow - stored)
	w.becomes("the observed ratio of enough values", fmt.Sprintf(`Number(/of ([\d,]+) values/.exec(document.querySelector(".whatif [data-key='fact']").innerText)?.[1].replace(",", "")) >= %d`, enough()))
	figures := w.figures()
	told, came := figures["test forecast_ratio"].Value, figures["test observed_ratio"].Value
	t.Logf("%s: forecast %.3f, in fact %.3f, by /metrics %.3f", c.Setting, told, came, counted)
	for name, is := range map[string]float64{"the page": came, "/metrics": counted} {
		if math.Abs(is/told-1) > maxForecastError {
			t.Errorf("%s: forecast was %.3f, %s says %.3f", c.Setting, told, name, is)
		}
	}
	w.picture("page-what-if-" + c.Codec)
}

// undone checks that the rule returns to its configuration after the undo button, and after a reload.
func undone(t *testing.T, w *tab, a *acting, c choice) {
	t.Helper()
	w.click(`[data-action="whatif-undo"]`)
	w.becomes("nothing applied", `!document.querySelector(".whatif [data-key='fact']")`)
	w.click(applies(c))
	w.becomes("something applied", `document.querySelector(".whatif [data-key='fact']")`)
	if err := a.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.becomes("nothing applied after a reload", `!document.querySelector(".whatif [data-key='fact']")`)
	if a.whatIf(t).Applied != nil {
		t.Error("/api/whatif still has it applied")
	}
}
