package rollout

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Unknown followers are standbys that follow a server, and slots that keep WAL there, that are not nodes of the cell.
// They are not told of a new primary, so they would keep following the old one, or have nothing to follow.

// unknownFollower is a connection that receives WAL, or an unused slot.
type unknownFollower struct {
	name, host string // application_name and address; "": not connected
	slot       string // "": none, or a temporary one
	logical    bool
	kept       int64 // bytes of WAL that an unused slot keeps

	perhaps string // name of a standby that does not answer; this follower may be that standby
	ofCell  bool   // a standby of the cell that follows another standby
}

func (s unknownFollower) String() string {
	switch {
	case s.logical:
		return "the logical slot " + s.slot
	case s.isUnusedSlot():
		return fmt.Sprintf("the unused slot %s, which keeps %s of WAL", s.slot, terminal.Size(s.kept))
	case s.slot != "":
		return fmt.Sprintf("%s (%s), with the slot %s", s.name, s.origin(), s.slot)
	}
	return fmt.Sprintf("%s (%s)", s.name, s.origin())
}

// isUnusedSlot reports whether it is an unused slot.
func (s unknownFollower) isUnusedSlot() bool { return s.name == "" && s.host == "" }

func (s unknownFollower) origin() string {
	if s.host == "" {
		return "Unix socket"
	}
	return s.host
}

// displayName returns a name for it that the operator knows.
func (s unknownFollower) displayName() string {
	if s.slot != "" {
		return s.slot
	}
	return s.name
}

// neighbours holds the nodes of a cell while one of them is replaced.
type neighbours struct {
	cell             *Cell
	primary, oldNode *Node
	others           []*Node  // nodes other than old
	oldSlots         []string // of nodes that have been replaced
}

// servers returns the servers whose followers are checked: the primary and, if it is a standby, the old node.
func (c neighbours) servers() []*Node {
	if c.oldNode == c.primary {
		return []*Node{c.primary}
	}
	return []*Node{c.primary, c.oldNode}
}

// leavesBehind reports whether the cell's file allows an unknown follower to stay.
func (c *Cell) leavesBehind(one unknownFollower) bool {
	return slices.Contains(c.LeftBehind, one.name) || slices.Contains(c.LeftBehind, one.slot)
}

// unknownFollowers returns the unknown followers of a server. findSlots reports the primary's logical slots.
func (c neighbours) unknownFollowers(ctx context.Context, server *Node) (list []unknownFollower, err error) {
	all, err := followersOf(ctx, server)
	if err == nil {
		var idle []unknownFollower
		idle, err = idleSlots(ctx, server)
		all = append(all, idle...)
	}
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, nil
	}
	if server != c.primary {
		return cascading(all, c.standbys(ctx, server), c.madeByThisRollout), nil
	}
	all = slices.DeleteFunc(all, func(one unknownFollower) bool { return one.logical || c.madeByThisRollout(one) })
	return withoutStandbys(all, c.standbys(ctx, server)), nil
}

// cascading returns the unknown followers of a standby: all its followers, nodes included, and idle slots that do not
// belong to nodes.
func cascading(all []unknownFollower, standbys []knownStandby, named func(unknownFollower) bool) (list []unknownFollower) {
	var idle []unknownFollower
	for _, one := range all {
		switch {
		case !one.isUnusedSlot():
			one.ofCell = named(one) || slices.ContainsFunc(standbys, func(s knownStandby) bool { return s.certainty(one) > 2 })
			list = append(list, one)
		case !named(one):
			idle = append(idle, one)
		}
	}
	return append(list, withoutStandbys(idle, standbys)...)
}

// followersOf returns the receivers of a server's WAL. Base backups are left out: they end by themselves.
func followersOf(ctx context.Context, server *Node) ([]unknownFollower, error) {
	return queryFollowers(ctx, server, `SELECT r.application_name, coalesce(host(r.client_addr), ''), CASE WHEN s.temporary THEN '' ELSE coalesce(s.slot_name, '') END, false, 0::bigint
		FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
		WHERE r.state IN ('catchup', 'streaming') AND r.application_name <> 'pg_basebackup' AND coalesce(s.slot_type, 'physical') = 'physical' ORDER BY 1, 2, 3`)
}

// idleSlots returns the unused slots and the logical ones.
func idleSlots(ctx context.Context, server *Node) ([]unknownFollower, error) {
	return queryFollowers(ctx, server, `SELECT '', '', slot_name, slot_type = 'logical',
		coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint
		FROM pg_replication_slots WHERE NOT temporary AND (slot_type = 'logical' OR NOT active) ORDER BY 3`)
}

func queryFollowers(ctx context.Context, server *Node, query string) (list []unknownFollower, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err = server.ask(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, query)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (one unknownFollower, err error) {
			return one, row.Scan(&one.name, &one.host, &one.slot, &one.logical, &one.kept)
		})
		return err
	})
	return list, err
}

// madeByThisRollout reports whether it has a name that this roll-out gives.
func (c neighbours) madeByThisRollout(one unknownFollower) bool {
	for i := range c.cell.Nodes {
		n := &c.cell.Nodes[i]
		for _, slot := range []string{n.slot(), n.Replacement.slot()} {
			if one.name == slot || one.slot == slot {
				return true
			}
		}
	}
	return slices.Contains(c.oldSlots, one.slot)
}

// knownStandby describes how a standby of the cell, not made by this roll-out, follows.
type knownStandby struct {
	name, slot string
	addresses  []string
	silent     bool // it does not answer, so the rest is unknown
}

// receiverName selects the application_name with which a standby connects to its upstream, from pg_stat_wal_receiver.
const receiverName = `coalesce(max(coalesce(substring(conninfo FROM '\mapplication_name=(\S+)'), substring(conninfo FROM 'fallback_application_name=(\S+)'))), '')`

// standbys queries the cell's standbys, except for server.
func (c neighbours) standbys(ctx context.Context, server *Node) (list []knownStandby) {
	for _, n := range append([]*Node{c.oldNode}, c.others...) {
		if n == c.primary || n == server || c.cell.node(n.Name) == nil {
			continue
		}
		one := knownStandby{name: n.Name}
		asked, cancel := context.WithTimeout(ctx, answerTime)
		err := n.ask(asked, func(c *pgx.Conn) error {
			return c.QueryRow(asked, `SELECT `+receiverName+`, current_setting('primary_slot_name') FROM pg_stat_wal_receiver`).Scan(&one.name, &one.slot)
		})
		cancel()
		one.silent = err != nil
		host, _, _ := n.location()
		one.addresses, _ = net.DefaultResolver.LookupHost(ctx, host)
		list = append(list, one)
	}
	return list
}

// certainty returns how certain it is that a follower is this standby, from 0 (not at all) to 4. Several standbys
// may have one name.
func (s knownStandby) certainty(one unknownFollower) int {
	here := slices.Contains(s.addresses, one.host)
	switch {
	case one.logical:
		return 0
	case one.slot != "" && one.slot == s.slot:
		return 4
	case s.silent && (here || one.name == s.name):
		return 1
	case one.name == "" || one.name != s.name || one.slot != s.slot:
		return 0
	case here:
		return 3
	}
	return 2
}

// withoutStandbys leaves out the standbys of the cell. Each matches one follower at most, the most certain match
// first. The slot of a standby that does not answer is unknown, so an unused slot may belong to it.
func withoutStandbys(list []unknownFollower, standbys []knownStandby) []unknownFollower {
	for sure := 4; sure > 0; sure-- {
		for at := 0; at < len(standbys); {
			i := slices.IndexFunc(list, func(one unknownFollower) bool { return standbys[at].certainty(one) >= sure })
			if i < 0 {
				at++
				continue
			}
			list, standbys = slices.Delete(list, i, i+1), slices.Delete(standbys, at, at+1)
		}
	}
	standbys = slices.DeleteFunc(standbys, func(s knownStandby) bool { return !s.silent })
	for i := range list {
		if len(standbys) > 0 && list[i].isUnusedSlot() && !list[i].logical {
			list[i].perhaps, standbys = standbys[0].name, standbys[1:]
		}
	}
	return list
}
