package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/observe/client"
)

// ErrAnswer reports an answer that is not from Prometheus, or an error of it.
var ErrAnswer = errors.New("not an answer of Prometheus")

// Prometheus is a server that has scraped gateways.
type Prometheus struct {
	server *client.Server
	match  string
}

// OpenPrometheus returns the Prometheus at an address. match adds label matchers to queries, as job="cinch";
// "": none. It does not connect.
func OpenPrometheus(address, match string, o client.Options) (*Prometheus, error) {
	s, err := client.Open(address, o)
	if err != nil {
		return nil, err
	}
	return &Prometheus{s, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(match), "{"), "}")}, nil
}

// Name returns the address without scheme and credentials.
func (p *Prometheus) Name() string { return p.server.Name() }

// found is a series of an answer.
type found struct {
	Metric map[string]string `json:"metric"`
	Values []sample          `json:"values"`
}

// sample is a value with its time, in seconds since 1970.
type sample struct{ at, value float64 }

// UnmarshalJSON parses [1435781430.781, "1"].
func (s *sample) UnmarshalJSON(text []byte) error {
	at, value, ok := strings.Cut(strings.Trim(string(text), "[] \n"), ",")
	if !ok {
		return fmt.Errorf("%w: a sample without a value", ErrAnswer)
	}
	var err error
	if s.at, err = strconv.ParseFloat(at, 64); err != nil {
		return fmt.Errorf("%w: a sample without a valid time", ErrAnswer)
	}
	if s.value, err = strconv.ParseFloat(strings.Trim(value, `" `), 64); err != nil || math.IsNaN(s.value) || math.IsInf(s.value, 0) {
		return fmt.Errorf("%w: a sample that is not a number", ErrAnswer)
	}
	return nil
}

// series returns the last samples of a metric before each step of a window, and before its end.
func (p *Prometheus) series(ctx context.Context, metric string, w Window) ([]found, error) {
	query := fmt.Sprintf("last_over_time(%s{%s}[%ds])", metric, p.match, int(lookback(w).Seconds()))
	n := int(w.To.Sub(w.From) / w.Step)
	list, err := p.between(ctx, query, w.From, w.From.Add(time.Duration(n)*w.Step), w.Step)
	if err != nil || n == w.steps() {
		return list, err
	}
	last, err := p.between(ctx, query, w.To, w.To, w.Step) // the window ends within a step
	return append(list, last...), err
}

func (p *Prometheus) between(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]found, error) {
	return p.ask(ctx, "/api/v1/query_range", url.Values{"query": {query}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}})
}

// raw returns the samples of several metrics of one target, between two times.
func (p *Prometheus) raw(ctx context.Context, metrics []string, of target, from, to time.Time) ([]found, error) {
	query := fmt.Sprintf(`{__name__=~%q%s}[%dms]`, strings.Join(metrics, "|"), of.matchers(), to.Sub(from).Milliseconds())
	return p.ask(ctx, "/api/v1/query", url.Values{"query": {query}, "time": {seconds(to)}})
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

func (p *Prometheus) ask(ctx context.Context, path string, form url.Values) (list []found, err error) {
	q := client.Request{Method: http.MethodPost, Path: path, Type: "application/x-www-form-urlencoded", Body: []byte(form.Encode())}
	err = p.server.Do(ctx, q, func(answer *http.Response, body io.Reader) error {
		var doc struct {
			Status, Error string
			Data          struct{ Result []found }
		}
		bad := json.NewDecoder(body).Decode(&doc)
		switch {
		case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
			return fmt.Errorf("%w: the server answers %s", ErrAccess, answer.Status)
		case doc.Error != "":
			return fmt.Errorf("%w: %.500q", ErrAnswer, doc.Error)
		case answer.StatusCode != http.StatusOK || bad != nil || doc.Status != "success":
			return fmt.Errorf("%w: the server answers %s", ErrAnswer, answer.Status)
		case slices.ContainsFunc(doc.Data.Result, func(f found) bool { return f.Metric == nil }):
			return fmt.Errorf("%w: a series without labels", ErrAnswer)
		}
		list = doc.Data.Result
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoAnswer, p.Name(), err)
	}
	return list, nil
}

// ownLabels lists the labels that the gateway sets. All others identify the target.
var ownLabels = []string{"__name__", "gateway", "rule", "codec", "reason", "side", "protocol"}

// target is the set of labels of a scraped target.
type target map[string]string

func targetOf(labels map[string]string) target {
	t := target(maps.Clone(labels))
	for _, name := range ownLabels {
		delete(t, name)
	}
	return t
}

// matchers returns the labels as selectors, each preceded by a comma.
func (t target) matchers() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, ",%s=%s", name, strconv.Quote(t[name]))
	}
	return b.String()
}

// lookback returns the maximum age of a sample: longer than most scrape intervals, and covering the last one
// of a step.
func lookback(w Window) time.Duration { return max(w.Step, 5*time.Minute) }
