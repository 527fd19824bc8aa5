package server

// The memory that the process may hold, apart from the budget of values:
//
//	fixed + per connection + samples and training of dictionaries + packing
const (
	fixedBytes      = 48 << 20 // codec states, pools, metrics; without the program itself
	trainingBytes   = 64 << 20 // tables and garbage of a training
	connectionBytes = 32 << 10 // buffers and stacks of both sides
	tunnelBytes     = 64 << 10 // in addition, in flight on a tunnel's connection
)

// memoryLimit returns how many bytes the process may hold now.
func (p *Process) memoryLimit() int64 {
	connections, samples, packing := int64(0), p.shared.trainer.InMemory(), int64(0)
	for _, r := range p.gateways {
		open := r.stats.Snapshot().Connections.Open
		connections += open * connectionBytes
		if r.tunnelSetting != "" {
			connections += open * tunnelBytes
		}
		samples += r.sampleBytes()
		if r.packer != nil {
			packing += r.packer.bytes()
		}
	}
	if samples > 0 {
		samples += trainingBytes
	}
	histories := int64(0)
	if !usesLibzstd(p.shared.engine) { // libzstd's memory is outside the Go heap
		for _, e := range p.shared.links {
			histories += e.State().Used
		}
	}
	return int64(p.started.Memory.Budget) + fixedBytes + connections + samples + packing + histories + p.history.InMemory()
}

// sampleBytes returns the size of the gateway's samples.
func (r *running) sampleBytes() (n int64) {
	if r.kinds != nil {
		for _, s := range r.kinds.Status() {
			n += int64(s.SampleBytes)
		}
	}
	if r.auto != nil {
		for _, s := range r.auto.Status() {
			n += int64(s.SampleBytes)
		}
	}
	if r.http != nil {
		n += int64(r.http.SampleBytes())
	}
	if r.grpc != nil {
		n += int64(r.grpc.SampleBytes())
	}
	return n
}
