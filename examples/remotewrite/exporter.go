package main

import (
	"bufio"
	"fmt"
	"net/http"
	"sync"
)

// exporter is the target that Prometheus scrapes. The value of a series at a scrape can be computed, so the
// receiver can check it.
type exporter struct {
	series, most int

	mu      sync.Mutex
	scrapes int // answered scrapes
}

var (
	namespaces = []string{"checkout", "payments", "search", "catalog", "identity"}
	codes      = []string{"200", "201", "404", "429", "500"}
)

// labels returns the labels of a series, except job and instance.
func labels(i int) string {
	return fmt.Sprintf(`series="%d",namespace="%s",pod="api-%d-7c9f",container="app",method="GET",code="%s"`, i, namespaces[i%5], i/25, codes[i/5%5])
}

// value returns the value of a series at a scrape: a third of the series grow steadily, a third grow by
// random steps, a third fluctuate.
func value(i, scrape int) float64 {
	h := uint64(i)*0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03
	noise := func(n int) float64 { return float64((h^uint64(n)*0xBF58476D1CE4E5B9)>>20%1000) / 8 }
	switch i % 3 {
	case 0:
		return float64(i*1000 + scrape*(1+i%40))
	case 1:
		sum := float64(h >> 44)
		for n := range scrape {
			sum += float64(int(noise(n)))
		}
		return sum
	}
	return 100 + noise(scrape)
}

// ServeHTTP answers a scrape. After the last one the target is down.
func (e *exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.scrapes >= e.most {
		http.Error(w, "no more scrapes", http.StatusServiceUnavailable)
		return
	}
	e.scrapes++
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "# TYPE http_server_requests gauge")
	for i := range e.series {
		fmt.Fprintf(out, "http_server_requests{%s} %v\n", labels(i), value(i, e.scrapes))
	}
	_ = out.Flush()
}
