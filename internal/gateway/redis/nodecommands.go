package redis

import "github.com/cinch-layer/cinch/internal/wire/resp"

// nodeCommands handles commands about other servers: CLUSTER, SENTINEL, CLIENT CAPA, ASKING, READONLY.
type nodeCommands struct {
	upstream *upstreamWriter
	user     *user
	view     topology
}

// clusterCommand forwards CLUSTER. In a cluster, the addresses in its reply are rewritten.
func (c *nodeCommands) clusterCommand(r *request) error {
	if !inCluster(c.view) {
		return c.upstream.forward(r, entry{})
	}
	for _, sub := range [...]string{"slots", "shards", "nodes", "replicas", "slaves"} {
		if resp.IsWord(r.args[1], sub) {
			return c.upstream.forward(r, entry{kind: kindCluster, data: &entryData{text: sub}})
		}
	}
	return c.upstream.forward(r, entry{})
}

// capabilities forwards CLIENT CAPA. It removes "redirect" if no gateway is known for the primary: a replica
// would redirect the client past the gateways, where it would read envelopes. Without it the replica serves
// the client like any other.
func (c *nodeCommands) capabilities(r *request) error {
	if c.view != nil {
		return c.upstream.forward(r, entry{})
	}
	args := append([][]byte(nil), r.args...)
	for i := 2; i < len(args); i++ {
		if resp.IsWord(args[i], "redirect") {
			args[i] = []byte("none") // the server ignores unknown capabilities
		}
	}
	return c.upstream.forward(&request{cmd: r.cmd, args: args}, entry{})
}

// sentinelCommand forwards SENTINEL. If the server is a Sentinel, the addresses in its reply are rewritten.
func (c *nodeCommands) sentinelCommand(r *request) error {
	if !ofSentinels(c.view) {
		return c.upstream.forward(r, entry{})
	}
	if resp.IsWord(r.args[1], "replicas") || resp.IsWord(r.args[1], "slaves") {
		return c.upstream.forward(r, entry{kind: kindCluster, data: &entryData{text: "replicas of"}})
	}
	for _, sub := range [...]string{"get-master-addr-by-name", "master", "masters", "sentinels"} {
		if resp.IsWord(r.args[1], sub) {
			return c.upstream.forward(r, entry{kind: kindCluster, data: &entryData{text: sub}})
		}
	}
	return c.upstream.forward(r, entry{})
}

func (c *nodeCommands) asking(r *request) error {
	c.upstream.asking.next = !c.upstream.tx.open
	return c.upstream.forward(r, entry{})
}

// readOnly forwards READONLY and READWRITE. A client may then read from a replica, and the second connection
// must do the same.
func (c *nodeCommands) readOnly(r *request) error {
	c.user.sideConn.setReadOnly(resp.IsWord(r.args[0], "readonly"))
	return c.upstream.forward(r, entry{})
}
