package rollout

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/ui"
)

// Strangers are standbys that follow a server, and slots that keep WAL there, that are not nodes of the cell.
// They are not told of a new primary, so they would keep following the old one, or have nothing to follow.

// stranger is a connection that receives WAL, or an unused slot.
type stranger struct {
	name, host string // application_name and address; "": not connected
	slot       string // "": none, or a temporary one
	logical    bool
	kept       int64 // bytes of WAL that an unused slot keeps

	perhaps string // name of a standby that does not answer, which it may be
	ours    bool   // a standby of the cell that follows another standby
}

func (s stranger) String() string {
	switch {
	case s.logical:
		return "the logical slot " + s.slot
	case s.idle():
		return fmt.Sprintf("the unused slot %s, which keeps %s of WAL", s.slot, ui.Size(s.kept))
	case s.slot != "":
		return fmt.Sprintf("%s (%s), with the slot %s", s.name, s.from(), s.slot)
	}
	return fmt.Sprintf("%s (%s)", s.name, s.from())
}

// idle reports whether it is an unused slot.
func (s stranger) idle() bool { return s.name == "" && s.host == "" }

func (s stranger) from() string {
	if s.host == "" {
		return "Unix socket"
	}
	return s.host
}

// called returns a name for it that the operator knows.
func (s stranger) called() string {
	if s.slot != "" {
		return s.slot
	}
	return s.name
}

// neighbours holds the nodes of a cell while one of them is replaced.
type neighbours struct {
	cell         *Cell
	primary, old *Node
	others       []*Node  // nodes other than old
	oldSlots     []string // of nodes that have been replaced
}

// servers returns the servers whose followers are checked: the primary and, if it is a standby, the old node.
func (c neighbours) servers() []*Node {
	if c.old == c.primary {
		return []*Node{c.primary}
	}
	return []*Node{c.primary, c.old}
}

// leavesBehind reports whether the cell's file allows a stranger to stay.
func (c *Cell) leavesBehind(one stranger) bool {
	return slices.Contains(c.LeftBehind, one.name) || slices.Contains(c.LeftBehind, one.slot)
}

// strangersOf returns the strangers of a server. findSlots reports the primary's logical slots.
func (c neighbours) strangersOf(ctx context.Context, server *Node) (list []stranger, err error) {
	all, err := followersOf(ctx, server)
	if err == nil {
		var idle []stranger
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
		return cascading(all, c.standbys(ctx, server), c.ours), nil
	}
	all = slices.DeleteFunc(all, func(one stranger) bool { return one.logical || c.ours(one) })
	return except(all, c.standbys(ctx, server)), nil
}

// cascading returns the strangers of a standby: all its followers, nodes included, and idle slots that do not
// belong to nodes.
func cascading(all []stranger, standbys []knownStandby, named func(stranger) bool) (list []stranger) {
	var idle []stranger
	for _, one := range all {
		switch {
		case !one.idle():
			one.ours = named(one) || slices.ContainsFunc(standbys, func(s knownStandby) bool { return s.is(one) > 2 })
			list = append(list, one)
		case !named(one):
			idle = append(idle, one)
		}
	}
	return append(list, except(idle, standbys)...)
}

// followersOf returns the receivers of a server's WAL. Base backups are left out: they end by themselves.
func followersOf(ctx context.Context, server *Node) ([]stranger, error) {
	return strangers(ctx, server, `SELECT r.application_name, coalesce(host(r.client_addr), ''), CASE WHEN s.temporary THEN '' ELSE coalesce(s.slot_name, '') END, false, 0::bigint
		FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
		WHERE r.state IN ('catchup', 'streaming') AND r.application_name <> 'pg_basebackup' AND coalesce(s.slot_type, 'physical') = 'physical' ORDER BY 1, 2, 3`)
}

// idleSlots returns the unused slots and the logical ones.
func idleSlots(ctx context.Context, server *Node) ([]stranger, error) {
	return strangers(ctx, server, `SELECT '', '', slot_name, slot_type = 'logical',
		coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint
		FROM pg_replication_slots WHERE NOT temporary AND (slot_type = 'logical' OR NOT active) ORDER BY 3`)
}

func strangers(ctx context.Context, server *Node, query string) (list []stranger, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err = server.ask(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, query)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (one stranger, err error) {
			return one, row.Scan(&one.name, &one.host, &one.slot, &one.logical, &one.kept)
		})
		return err
	})
	return list, err
}

// ours reports whether it has a name that this roll-out gives.
func (c neighbours) ours(one stranger) bool {
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

// standbys queries the cell's standbys, except for server.
func (c neighbours) standbys(ctx context.Context, server *Node) (list []knownStandby) {
	for _, n := range append([]*Node{c.old}, c.others...) {
		if n == c.primary || n == server || c.cell.node(n.Name) == nil {
			continue
		}
		one := knownStandby{name: n.Name}
		asked, cancel := context.WithTimeout(ctx, answerTime)
		err := n.ask(asked, func(c *pgx.Conn) error {
			return c.QueryRow(asked, `SELECT coalesce(max(coalesce(substring(conninfo FROM '\mapplication_name=(\S+)'), substring(conninfo FROM 'fallback_application_name=(\S+)'))), ''),
				current_setting('primary_slot_name') FROM pg_stat_wal_receiver`).Scan(&one.name, &one.slot)
		})
		cancel()
		one.silent = err != nil
		if u, err := url.Parse(n.URL); err == nil {
			one.addresses, _ = net.DefaultResolver.LookupHost(ctx, u.Hostname())
		}
		list = append(list, one)
	}
	return list
}

// is returns how certain it is that a stranger is this standby, from 0 (not at all) to 4. Several standbys
// may have one name.
func (s knownStandby) is(one stranger) int {
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

// except leaves out the standbys of the cell. Each matches one stranger at most, the most certain match
// first. The slot of a standby that does not answer is unknown, so an unused slot may be its.
func except(list []stranger, standbys []knownStandby) []stranger {
	for sure := 4; sure > 0; sure-- {
		for at := 0; at < len(standbys); {
			i := slices.IndexFunc(list, func(one stranger) bool { return standbys[at].is(one) >= sure })
			if i < 0 {
				at++
				continue
			}
			list, standbys = slices.Delete(list, i, i+1), slices.Delete(standbys, at, at+1)
		}
	}
	standbys = slices.DeleteFunc(standbys, func(s knownStandby) bool { return !s.silent })
	for i := range list {
		if len(standbys) > 0 && list[i].idle() && !list[i].logical {
			list[i].perhaps, standbys = standbys[0].name, standbys[1:]
		}
	}
	return list
}
