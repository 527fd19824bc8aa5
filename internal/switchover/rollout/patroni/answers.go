package patroni

import (
	"encoding/json"
	"slices"
)

// Cluster is the response of GET /cluster, which Patroni reads from its store for each request.
type Cluster struct {
	Scope     string          `json:"scope"`
	Members   []Member        `json:"members"`
	Pause     bool            `json:"pause"`
	Scheduled json.RawMessage `json:"scheduled_switchover"`
}

// Member is a server of a cluster.
type Member struct {
	Name  string         `json:"name"`
	Role  string         `json:"role"`
	State string         `json:"state"`
	Tags  map[string]any `json:"tags"`
}

// Roles of members.
const (
	Leader        = "leader"
	StandbyLeader = "standby_leader"
	SyncStandby   = "sync_standby"
)

// States of members.
const (
	Running   = "running"   // a leader, and in old versions a standby too
	Streaming = "streaming" // a standby
	Stopped   = "stopped"
)

// Leader returns the member that holds the leader lock, or nil if there is none.
func (c Cluster) Leader() *Member {
	at := slices.IndexFunc(c.Members, func(m Member) bool { return m.Role == Leader || m.Role == StandbyLeader })
	if at < 0 {
		return nil
	}
	return &c.Members[at]
}

// Member returns the member of this name, or nil.
func (c Cluster) Member(name string) *Member {
	at := slices.IndexFunc(c.Members, func(m Member) bool { return m.Name == name })
	if at < 0 {
		return nil
	}
	return &c.Members[at]
}

// Up reports whether a standby follows.
func (m *Member) Up() bool { return m != nil && (m.State == Streaming || m.State == Running) }

// Status is a member's response about itself (GET /patroni).
type Status struct {
	State   string         `json:"state"`
	Role    string         `json:"role"`
	Pause   bool           `json:"pause"`
	Tags    map[string]any `json:"tags"`
	Patroni struct {
		Version string `json:"version"`
		Scope   string `json:"scope"`
		Name    string `json:"name"`
	} `json:"patroni"`
}

// Settings are the settings of the whole cluster that a roll-out needs.
type Settings struct {
	LoopWait        int `json:"loop_wait"`
	SynchronousMode any `json:"synchronous_mode"` // a bool, or "quorum"
}

// OnlySynchronous reports whether only a synchronous standby may become the leader by a switchover.
func (s Settings) OnlySynchronous() bool {
	switch v := s.SynchronousMode.(type) {
	case bool:
		return v
	case string:
		return v == "on" || v == "true"
	}
	return false
}
