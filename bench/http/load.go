package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connections is the number of the client's connections. With HTTP/2 it is the number of concurrent requests
// on one connection.
const connections = 8

// load sends a client's requests to one way.
type load struct {
	client http.Client
	url    string
	bodies [][]byte
	next   atomic.Uint64

	mu     sync.Mutex
	took   []time.Duration
	failed error
}

func newLoad(addr string, size int, http2 bool) *load {
	l := &load{url: "http://" + addr + "/", bodies: texts(size)}
	l.client.Transport = &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true, Protocols: protocols(http2)}
	return l
}

// texts returns bodies that look like metrics in text format, each with other numbers.
func texts(size int) (list [][]byte) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 64 {
		var b []byte
		for i := 0; len(b) < size; i++ {
			b = fmt.Appendf(b, "http_requests_total{pod=\"api-%d\",code=\"%d\"} %d\n", i%97, 200+i%5, random.IntN(100_000))
		}
		list = append(list, b[:size])
	}
	return list
}

func (l *load) one() {
	begin := time.Now()
	err := l.post(l.bodies[l.next.Add(1)%uint64(len(l.bodies))])
	took := time.Since(begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = err
		return
	}
	l.took = append(l.took, took)
}

func (l *load) post(body []byte) error {
	resp, err := l.client.Post(l.url, "text/plain", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// flood sends as many requests as possible, on all connections.
func (l *load) flood(ctx context.Context) {
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for ctx.Err() == nil {
				l.one()
			}
		})
	}
	wg.Wait()
}

// pace sends rate requests a second, at random times. A request waits for an earlier one only if all
// connections are busy.
func (l *load) pace(ctx context.Context, rate float64) {
	var wg sync.WaitGroup
	at := time.Now()
	for ctx.Err() == nil {
		at = at.Add(time.Duration(rand.ExpFloat64() / rate * 1e9))
		time.Sleep(time.Until(at))
		wg.Go(l.one)
	}
	wg.Wait()
}

// quantile returns a quantile of the request durations. It sorts them.
func (l *load) quantile(q float64) time.Duration {
	slices.Sort(l.took)
	return l.took[int(q*float64(len(l.took)-1))]
}
