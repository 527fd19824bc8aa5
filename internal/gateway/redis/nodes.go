package redis

import (
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// nodeCommands are about other servers: CLUSTER, SENTINEL, CLIENT CAPA, ASKING, READONLY.
type nodeCommands struct {
	talk *conversation
	user *user
	view topology
}

// clusterCommand rewrites the addresses in what CLUSTER answers.
func (c *nodeCommands) clusterCommand(r *request) error {
	if !inCluster(c.view) {
		return c.talk.forward(r, entry{})
	}
	for _, sub := range [...]string{"slots", "shards", "nodes", "replicas", "slaves"} {
		if resp.IsWord(r.args[1], sub) {
			return c.talk.forward(r, entry{kind: kindCluster, op: &op{text: sub}})
		}
	}
	return c.talk.forward(r, entry{})
}

// capabilities passes CLIENT CAPA on. A client that can be redirected by a replica is not where no
// gateway is known for the primary: it would go past the gateways, and read envelopes. The replica
// serves it then as any other client.
func (c *nodeCommands) capabilities(r *request) error {
	if c.view != nil {
		return c.talk.forward(r, entry{})
	}
	args := append([][]byte(nil), r.args...)
	for i := 2; i < len(args); i++ {
		if resp.IsWord(args[i], "redirect") {
			args[i] = []byte("none") // the server passes over what it does not know
		}
	}
	return c.talk.forward(&request{cmd: r.cmd, args: args}, entry{})
}

// sentinelCommand rewrites the addresses in what a Sentinel answers.
func (c *nodeCommands) sentinelCommand(r *request) error {
	if !ofSentinels(c.view) {
		return c.talk.forward(r, entry{})
	}
	if resp.IsWord(r.args[1], "replicas") || resp.IsWord(r.args[1], "slaves") {
		return c.talk.forward(r, entry{kind: kindCluster, op: &op{text: "replicas of"}})
	}
	for _, sub := range [...]string{"get-master-addr-by-name", "master", "masters", "sentinels"} {
		if resp.IsWord(r.args[1], sub) {
			return c.talk.forward(r, entry{kind: kindCluster, op: &op{text: sub}})
		}
	}
	return c.talk.forward(r, entry{})
}

func (c *nodeCommands) asking(r *request) error {
	c.talk.asks.next = !c.talk.tx.open
	return c.talk.forward(r, entry{})
}

// readOnly watches READONLY and READWRITE: a client may read from a replica, and so must the
// second connection.
func (c *nodeCommands) readOnly(r *request) error {
	c.user.second.setReadOnly(resp.IsWord(r.args[0], "readonly"))
	return c.talk.forward(r, entry{})
}
