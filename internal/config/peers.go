package config

// pair checks the keys peers and sample.
func (v *validator) pair(g *Gateway, path string) {
	if g.Protocol == GRPC || g.Protocol == Mongo {
		return
	}
	if g.Peers && g.Protocol != HTTP {
		v.add(path+".peers", "", "is only for protocol: grpc, http and mongo")
	}
	if g.Sample && g.Protocol != HTTP {
		v.add(path+".sample", "", "is only for protocol: grpc, http and mongo")
	}
}
