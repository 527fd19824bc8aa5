package cluster

import (
	"net"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// viewOf returns the view of the first of nodes. The gateway of each has the node's port with a 1 in front.
func viewOf(nodes ...node) *View {
	c := &Cluster{members: map[string]*member{}}
	t := &nodeTable{byAddress: map[string]*member{}, byPort: map[string]*member{}}
	for i := range nodes {
		m := &member{id: nodes[i].id, advertised: gateway.Advertised{Host: "gw", Port: "1" + nodes[i].port}}
		m.node.Store(&nodes[i])
		t.all = append(t.all, m)
		t.byAddress[Address(nodes[i].ip, nodes[i].port)] = m
	}
	c.table.Store(t)
	return &View{c: c, member: t.all[0]}
}

func TestViewFindsAsTheNodeSpeaks(t *testing.T) {
	v := viewOf(node{id: "a", ip: "10.0.0.1", port: "379"}, node{id: "b", ip: "10.0.0.1", port: "380"}, node{id: "c", ip: "10.0.0.2", port: "379"})
	for spoken, want := range map[[2]string]string{
		{"10.0.0.2", "379"}: "1379", {"", "380"}: "1380", {"?", "379"}: "1379",
	} {
		if a, ok := v.Find(spoken[0], spoken[1]); !ok || a.Port != want {
			t.Errorf("%v: %+v %v", spoken, a, ok)
		}
	}
	to := v.KnownRenamer(&net.TCPAddr{})
	if _, _, ok := to("10.0.0.9", "379"); ok {
		t.Error("a stranger is known")
	}
	if !v.InCluster() || v.OfSentinels() {
		t.Error("it is a node of a cluster")
	}
}
