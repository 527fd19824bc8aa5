package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/cinch-layer/cinch/internal/switchover/rollout/patroni"
)

// managed implements strategy for a cell that Patroni manages. Patroni makes the copies, promotes, demotes and
// makes standbys follow; the roll-out starts and stops Patroni on the nodes, sets which nodes may become the
// leader, orders the switch-over, and makes clients wait for it.
type managed struct {
	plain
	*task
	api   *patroni.Client
	nodes []*Node // the nodes in service, and the one that is being made
}

func (m managed) steps() map[Step]func(context.Context) error {
	steps := m.plain.steps()
	for step, take := range map[Step]func(context.Context) error{
		StepProvision: m.provision,
		StepBackup:    m.backup,
		StepStart:     m.start,
		StepJoin:      m.join,
		StepRetire:    m.retire,
		StepHold:      m.hold,
		StepFence:     m.fence,
		StepPromote:   m.promote,
		StepFollow:    m.follow,
	} {
		steps[step] = take
	}
	steps[StepCheck] = func(ctx context.Context) error { return m.refuse(m.find(ctx)) }
	return steps
}

// cluster returns the cluster as Patroni's store has it.
func (m managed) cluster(ctx context.Context) (patroni.Cluster, error) {
	apis := make([]string, 0, len(m.nodes)+1)
	for _, n := range append(m.nodes, m.oldNode) {
		apis = append(apis, n.Patroni.API)
	}
	return m.api.AnyCluster(ctx, apis)
}

// errOtherLeader is wrapped by the error of a step that finds another leader, chosen by Patroni itself.
var errOtherLeader = errors.New("the leader was changed by Patroni itself")

// errPaused means that Patroni is paused: it obeys no orders and does nothing by itself.
var errPaused = fmt.Errorf("%w: Patroni is in maintenance mode (pause): patronictl resume, then run again", ErrGate)

// errNoLeader means that Patroni has not found a new leader yet.
var errNoLeader = errors.New("the cluster has no leader")

// leader returns the name of the leader.
func (m managed) leader(ctx context.Context) (string, error) {
	c, err := m.cluster(ctx)
	if err != nil {
		return "", err
	}
	if l := c.Leader(); l != nil {
		return l.Name, nil
	}
	return "", errNoLeader
}

// sameLeader returns an error if the leader is not the primary of this roll-out. For some time there may be
// no leader.
func (m managed) sameLeader(ctx context.Context) error {
	if leader, err := m.leader(ctx); err == nil && leader != m.primary.Name {
		return fmt.Errorf("%w: the leader is %s", errOtherLeader, leader)
	}
	return nil
}

// waitFor polls the cluster until done returns "". done returns what is missing.
func (m managed) waitFor(ctx context.Context, done func(patroni.Cluster) (missing string)) error {
	ctx, cancel := context.WithTimeout(ctx, m.cell.catchUpTime())
	defer cancel()
	for {
		c, err := m.cluster(ctx)
		missing := ""
		if err == nil {
			if missing = done(c); missing == "" {
				return nil
			}
		}
		if stopped := pause(ctx); stopped != nil {
			if missing != "" {
				err = errors.New(missing)
			}
			return errors.Join(err, stopped)
		}
	}
}

// find runs the checks for any cell and those for Patroni.
func (m managed) find(ctx context.Context) ([]Finding, error) {
	found, err := m.plain.find(ctx)
	if err != nil {
		return nil, err
	}
	f := &findings{node: m.oldNode.Name, list: found}
	c, err := m.cluster(ctx)
	if err != nil {
		return nil, err
	}
	m.findCluster(f, c)
	if err := m.findFollowers(ctx, f, c); err != nil {
		return nil, err
	}
	if len(c.Scheduled) == 0 {
		if err := m.api.MayOrder(ctx, m.primary.Patroni.API); err != nil {
			f.problem("set patroni: {user, password_file} to those of restapi.authentication", "Patroni refuses requests: %v", err)
		}
	}
	if err := m.findSettings(ctx, f); err != nil {
		return nil, err
	}
	return f.list, m.findConfigs(ctx, f)
}

// findCluster checks what all members share.
func (m managed) findCluster(f *findings, c patroni.Cluster) {
	if c.Pause {
		f.problem("patronictl resume", "Patroni is in maintenance mode (pause), and would not carry out a switchover")
	}
	if len(c.Scheduled) > 0 {
		f.problem("patronictl flush switchover", "a switchover is scheduled: %s", c.Scheduled)
	}
	if l := c.Leader(); l != nil && l.Role == patroni.StandbyLeader {
		f.problem("roll out the cluster that it follows", "the cluster is a standby of another cluster, and has no clients")
	}
	for _, n := range m.nodes {
		if n != m.newNode && c.Member(n.Name) == nil {
			f.problem("use the name from Patroni's configuration as the node's name", "Patroni's cluster %s has no member %s", c.Scope, n.Name)
		}
	}
	for _, member := range c.Members {
		if m.cell.node(member.Name) == nil && m.cell.replaces(member.Name) == nil {
			f.say("member %s is not a node of this roll-out, and will not be changed", member.Name)
		}
	}
}

// findFollowers reports followers of the leader that are not members: they do not find a new leader by
// themselves.
func (m managed) findFollowers(ctx context.Context, f *findings, c patroni.Cluster) error {
	list, err := followersOf(ctx, m.primary)
	for _, one := range list {
		if c.Member(one.name) == nil {
			f.say("%s serves %v: not a member, so make sure that it finds the new leader", m.primary.Name, one)
		}
	}
	return err
}

func (m managed) findSettings(ctx context.Context, f *findings) error {
	status, err := m.api.Status(ctx, m.primary.Patroni.API)
	if err != nil {
		return err
	}
	settings, err := m.api.Settings(ctx, m.primary.Patroni.API)
	if err != nil {
		return err
	}
	f.say("Patroni %s, cluster %s, loop_wait %d s, synchronous_mode %v", status.Patroni.Version, status.Patroni.Scope, settings.LoopWait, settings.SynchronousMode)
	if settings.OnlySynchronous() && len(m.cell.Nodes) > 1 {
		f.say("only a synchronous standby can become the leader: raise synchronous_node_count during the roll-out (patronictl edit-config), so that a new member is one")
	}
	return nil
}

// findConfigs checks whether the configuration of the node can be read, and whether the replacement's belongs
// to it.
func (m managed) findConfigs(ctx context.Context, f *findings) error {
	text, err := m.read(ctx, m.oldNode)
	if err == nil {
		_, err = m.derived(text)
	}
	if err != nil {
		f.problem("set patroni: {config} to a file that the user of run: may read and write", "%s: %v", m.oldNode.Name, err)
		return nil
	}
	there, err := m.newNode.exists(ctx, m.newNode.Patroni.Config)
	if err != nil || !there {
		return err
	}
	if text, err = m.read(ctx, m.newNode); err != nil {
		return err
	}
	const rename = "set name in that file to the node's name"
	if name, err := patroni.MemberName(text); err != nil {
		f.problem(rename, "%s: %v", m.newNode.Patroni.Config, err)
	} else if name != m.newNode.Name {
		f.problem(rename, "%s has the name %q", m.newNode.Patroni.Config, name)
	}
	return nil
}

// replaces returns the node whose replacement has this name, or nil.
func (c *Cell) replaces(name string) *Node {
	for i := range c.Nodes {
		if c.Nodes[i].Replacement.Name == name {
			return &c.Nodes[i]
		}
	}
	return nil
}

// read returns the configuration of a node's Patroni.
func (m managed) read(ctx context.Context, n *Node) ([]byte, error) {
	text, err := n.command(ctx, "cat", n.Patroni.Config)
	return []byte(text), err
}

// derived returns the configuration of the new node, made from that of the old one.
func (m managed) derived(old []byte) ([]byte, error) {
	n := m.newNode
	host, port, _ := n.location()
	if host == "" || strings.HasPrefix(host, "/") {
		return nil, fmt.Errorf("node %s: its url must have a host to which the other members can connect", n.Name)
	}
	api, err := url.Parse(n.Patroni.API)
	if err != nil {
		return nil, err
	}
	return patroni.Derive(old, patroni.NewMember{
		Name: n.Name, Address: net.JoinHostPort(host, port), API: net.JoinHostPort(api.Hostname(), cmp.Or(api.Port(), "8008")),
		Data: n.Directory, Bin: n.Bin, Parameters: n.Options,
	})
}
