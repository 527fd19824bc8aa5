package server

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// estimated lists the settings that /api/messages tries on messages.
var estimated = []string{"s2", "zstd-1", "zstd-3"}

// describeMessageKinds answers /api/messages.
func (p *Process) describeMessageKinds() []admin.GatewayKinds {
	var all []admin.GatewayKinds
	for _, r := range p.gateways {
		if r.http != nil {
			all = append(all, describeBodies(r))
		}
		if r.kinds == nil {
			continue
		}
		g := admin.GatewayKinds{Gateway: r.name, Messages: []admin.MeasuredKind{}}
		var uncompressed []sampled.Measured
		if r.grpc != nil {
			uncompressed = r.grpc.Measured()
		}
		g.Messages = append(g.Messages, measuredKinds(uncompressed)...)
		if len(uncompressed) == 0 { // otherwise r.kinds has the same messages
			for _, k := range r.kinds.Status() {
				g.Messages = append(g.Messages, admin.MeasuredKind{KindStatus: k, Estimates: r.kinds.Estimates(k, estimated, p.shared.estimate)})
			}
		}
		all = append(all, g)
	}
	return all
}

// describeBodies returns the measured kinds of HTTP bodies, if they are measured.
func describeBodies(r *running) admin.GatewayKinds {
	return admin.GatewayKinds{Gateway: r.name, Messages: measuredKinds(r.http.Measured())}
}

// measuredKinds converts measurements of uncompressed messages.
func measuredKinds(measured []sampled.Measured) []admin.MeasuredKind {
	list := []admin.MeasuredKind{}
	for _, m := range measured {
		list = append(list, admin.MeasuredKind{KindStatus: m.KindStatus, Estimates: m.Estimates})
	}
	return list
}

// estimate compresses with the shared engine, whose limit on concurrent work applies.
func (s *shared) estimate(dst, src []byte, setting string) ([]byte, error) {
	to, err := codec.ParseSetting(setting)
	if err != nil {
		return nil, err
	}
	return s.engine.Compress(dst, src, to, nil)
}
