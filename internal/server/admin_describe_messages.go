package server

import (
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// describeKinds returns the measured kinds of messages for the admin page: numbers only, no contents.
func describeKinds(k *dictionary.Messages) []admin.Kind {
	var list []admin.Kind
	for _, s := range k.Status() {
		kind := admin.Kind{
			KindStatus: s, PromisedRatio: dictionary.Ratio(s.Promised), ObservedRatio: dictionary.Ratio(s.Observed),
		}
		if s.Dict != nil {
			kind.Dictionary, kind.DictionaryBytes = fmt.Sprintf("%08x", s.Dict.Number()), len(s.Dict.Content())
		}
		list = append(list, kind)
	}
	return list
}

// describeLearningKinds lists the kinds of messages that wait for a dictionary.
func describeLearningKinds(gateway string, kinds []dictionary.KindStatus) (list []admin.Learning) {
	for _, s := range kinds {
		if s.Rule == "" || s.Dict != nil && s.Step.Number == 0 {
			continue
		}
		list = append(list, admin.Learning{
			Gateway: gateway, Rule: s.Rule, Method: s.Method, Direction: s.Direction, Samples: s.SampleMessages, Wanted: s.Wanted,
			Step: s.Step.Number, Steps: s.Step.Of, Trying: s.Step.Trying, Refused: s.Refused,
		})
	}
	return list
}

// describeMessageDicts lists the dictionaries that gateways made for messages and use.
func (p *Process) describeMessageDicts() (list []admin.Dictionary) {
	for _, r := range p.gateways {
		if r.kinds == nil {
			continue
		}
		for _, k := range describeKinds(r.kinds) {
			if k.Dict != nil {
				list = append(list, admin.Dictionary{
					Number: k.Dictionary, Bytes: k.DictionaryBytes, Gateway: r.name, Rule: k.Rule, Method: k.Method, Direction: k.Direction,
					Promised: k.PromisedRatio, Observed: k.ObservedRatio,
				})
			}
		}
	}
	return list
}

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
		for _, k := range describeKinds(r.kinds) {
			if k.Rule == "" && len(uncompressed) > 0 { // the same messages as in the list above
				continue
			}
			estimates := r.kinds.Estimates(k.KindStatus, estimated, p.shared.estimate)
			g.Messages = append(g.Messages, admin.MeasuredKind{Kind: k, Estimates: estimates})
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
		list = append(list, admin.MeasuredKind{Kind: admin.Kind{KindStatus: m.KindStatus}, Estimates: m.Estimates})
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
