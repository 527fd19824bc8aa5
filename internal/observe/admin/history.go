package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/observe/history"
)

// Past is the document of /api/history, whose contract is docs/METRICS.md.
type Past struct {
	From        time.Time    `json:"from"`
	To          time.Time    `json:"to"`
	StepSeconds float64      `json:"step_seconds"`
	Oldest      *time.Time   `json:"oldest,omitempty"` // the first available sample
	Path        string       `json:"path,omitempty"`   // "": in memory
	Series      []PastSeries `json:"series"`
}

// PastSeries has a value for each step, nil for steps without a sample.
type PastSeries struct {
	history.Series
	Kind   string     `json:"kind"`
	Values []*float64 `json:"values"`
}

// serveHistory answers one query at a time, since it may read many files.
func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request) {
	q, err := parsePastQuery(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := s.query(r.Context(), q)
	switch {
	case errors.Is(err, history.ErrQuestion):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	doc, err := json.Marshal(newPast(a, s.opts.History.State()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(doc, '\n'))
}

func (s *Server) query(ctx context.Context, q history.Question) (*history.Answer, error) {
	s.querying.Lock()
	defer s.querying.Unlock()
	return s.opts.History.Query(ctx, q)
}

func newPast(a *history.Answer, st history.State) Past {
	p := Past{From: a.From.UTC(), To: a.To.UTC(), StepSeconds: a.Step.Seconds(), Path: st.Path, Series: []PastSeries{}}
	if !st.Oldest.IsZero() {
		p.Oldest = &st.Oldest
	}
	for _, l := range a.Lines {
		one := PastSeries{Series: l.Series, Kind: l.Kind.String(), Values: make([]*float64, len(l.Values))}
		for i := range l.Values {
			if a.Covered[i] && !math.IsNaN(l.Values[i]) {
				one.Values[i] = &l.Values[i]
			}
		}
		p.Series = append(p.Series, one)
	}
	return p
}

// parsePastQuery parses ?series=a,b&gateway=g&rule=r&from=24h&to=…&step=1h.
func parsePastQuery(query url.Values, now time.Time) (q history.Question, err error) {
	q.From, q.To = now.Add(-time.Hour), now
	for name, into := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if text := query.Get(name); text != "" {
			if *into, err = history.ParseTime(text, now); err != nil {
				return q, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if text := query.Get("step"); text != "" {
		if q.Step, err = history.ParseAge(text); err != nil || q.Step <= 0 {
			return q, fmt.Errorf("step: %q is not a duration: write 10s, 1h or 1d", truncate(text))
		}
	}
	var names []string
	for _, list := range query["series"] {
		names = append(names, strings.Split(list, ",")...)
	}
	gateways, rules := query["gateway"], query["rule"]
	q.Want = func(s history.Series) bool {
		return (names == nil || slices.Contains(names, s.Name)) && (gateways == nil || slices.Contains(gateways, s.Gateway)) &&
			(rules == nil || slices.Contains(rules, s.Rule))
	}
	return q, nil
}

func truncate(text string) string {
	if len(text) > 40 {
		text = text[:40]
	}
	return strings.Trim(strconv.QuoteToASCII(text), `"`)
}
