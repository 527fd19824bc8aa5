package main

import (
	"os"
	"runtime/debug"
	"time"
)

// The collector's limit follows from what we allow ourselves to hold:
//
//	budget of values + fixed + per connection + samples and training of dictionaries + packing
//
// It is soft: near it the collector works more instead of letting garbage grow
// to the size of what is live, as GOGC=100 does and does well below it. So the
// budget is nearly the peak, not half of it. GOMEMLIMIT, when set, is left alone;
// what GOGC is, heapfloor.go says.
const (
	fixedBytes      = 64 << 20 // program, codec states, pools, metrics
	trainingBytes   = 64 << 20 // tables and garbage of a training
	connectionBytes = 32 << 10 // both sides' buffers and stacks
	limitStep       = 16 << 20 // setting the limit stops the world: not for less
	limitInterval   = time.Second
)

// boundMemory keeps the limit up with the connections until the returned
// function is called.
func (p *process) boundMemory() (stop func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	limit := p.memoryLimit()
	debug.SetMemoryLimit(limit)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(limitInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if want := p.memoryLimit(); want-limit >= limitStep || limit-want >= limitStep {
				limit = want
				debug.SetMemoryLimit(limit)
			}
		}
	}()
	return func() { close(done) }
}

// memoryLimit is in bytes.
func (p *process) memoryLimit() int64 {
	connections, samples := int64(0), p.trainer.InMemory()
	for _, r := range p.gateways {
		connections += r.stats.Snapshot().Connections.Open
		if r.kinds != nil {
			for _, s := range r.kinds.Status() {
				samples += int64(s.SampleBytes)
			}
		}
		if r.auto == nil {
			continue
		}
		for _, s := range r.auto.Status() {
			samples += int64(s.SampleBytes)
		}
	}
	if samples > 0 {
		samples += trainingBytes
	}
	return int64(p.started.Memory.Budget) + fixedBytes + connections*connectionBytes + samples + p.packingBytes()
}
