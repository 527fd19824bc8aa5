package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// latencies holds the durations of requests, each from the time it was due.
type latencies []time.Duration

// at returns the latency that the given share of requests did not exceed. The latencies must be sorted.
func (l latencies) at(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(int(share*float64(len(l))), len(l)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

// warm requests every menu once, so that all are in the cache.
func warm(api string, menus int) error {
	for n := range menus {
		if err := get(api, n); err != nil {
			return err
		}
	}
	return nil
}

// load sends requests at a rate, at random times like independent customers, whether or not earlier ones were
// answered. The latency of a request counts from the time it was due.
func load(api string, menus int, rate float64, lasting time.Duration) (all latencies, failed int) {
	r := rand.New(rand.NewPCG(1, uint64(rate)))
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for due := time.Duration(0); due < lasting; due += time.Duration(r.ExpFloat64() / rate * 1e9) {
		number := min(r.IntN(menus), r.IntN(menus)) // low numbers are requested more often
		time.Sleep(time.Until(began.Add(due)))
		wg.Go(func() {
			err := get(api, number)
			took := time.Since(began) - due
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				return
			}
			all = append(all, took)
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all, failed
}

func get(api string, number int) error {
	resp, err := client.Get(fmt.Sprintf("http://%s/menu/%d", api, number))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the API answered %s: %.200s", resp.Status, text)
	}
	return nil
}
