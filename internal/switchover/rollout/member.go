package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/rollout/patroni"
)

// One member of a Patroni cluster: making it, keeping it from becoming the leader or allowing it, and
// stopping it.

// standbyTags holds the tags of a member that gets no reads, is not waited for by commits and never becomes the
// leader: a new member before its gates, and an old one that was replaced.
var standbyTags = map[string]any{"nofailover": true, "noloadbalance": true, "nosync": true}

// provision makes the directory and the configuration of a new member, with standbyTags.
func (m managed) provision(ctx context.Context) error {
	if err := m.preparation.provision(ctx); err != nil {
		return err
	}
	text, err := m.read(ctx, m.oldNode)
	if err != nil {
		return err
	}
	_, was, err := patroni.SetTags(text, standbyTags)
	if err != nil {
		return err
	}
	if m.progress.Tags == nil { // after a retry the old member may have standbyTags itself
		m.progress.Tags = was
		if err := m.save(); err != nil {
			return err
		}
	}
	there, err := m.newNode.exists(ctx, m.newNode.Patroni.Config)
	if err != nil {
		return err
	}
	if !there {
		if text, err = m.derived(text); err != nil {
			return err
		}
		if err := m.newNode.replaceFile(ctx, m.newNode.Patroni.Config, text); err != nil {
			return err
		}
	}
	return m.tag(ctx, m.newNode, standbyTags)
}

// tag sets tags of a member, and returns when its Patroni, if it runs, has read them.
func (m managed) tag(ctx context.Context, n *Node, tags map[string]any) error {
	text, err := m.read(ctx, n)
	if err != nil {
		return err
	}
	edited, _, err := patroni.SetTags(text, tags)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, edited) {
		if err := n.replaceFile(ctx, n.Patroni.Config, edited); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, m.cell.catchUpTime())
	defer cancel()
	for asked := false; ; asked = true {
		status, err := m.api.Status(ctx, n.Patroni.API)
		if err != nil || tagged(status.Tags, tags) {
			return nil //nolint:nilerr // a Patroni that does not answer reads the file when it is started
		}
		if !asked {
			if err := m.api.Reload(ctx, n.Patroni.API); err != nil {
				return fmt.Errorf("node %s: reload Patroni: %w", n.Name, err)
			}
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the Patroni of %s has not read its new tags: %w", n.Name, err)
		}
	}
}

// tagged reports whether a member has tags. Patroni does not show those that are false.
func tagged(have, want map[string]any) bool {
	for name, v := range want {
		if yes, _ := v.(bool); yes != (have[name] == true) {
			return false
		}
	}
	return true
}

// backup only runs the restore hook, if any: Patroni makes the copy when it is started.
func (m managed) backup(ctx context.Context) error {
	if err := m.halt(ctx, m.newNode); err != nil {
		return err
	}
	if err := m.emptyDirectories(ctx); err != nil {
		return err
	}
	return m.cell.hook(ctx, m.cell.Hooks.Restore, m.newNode)
}

// start starts Patroni on the new node, and waits until it has made the copy and follows.
func (m managed) start(ctx context.Context) error {
	if _, err := m.api.Status(ctx, m.newNode.Patroni.API); err != nil {
		if err := m.newNode.start(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := m.copied(ctx); err != nil {
		return err
	}
	if m.progress.BackupTook == 0 {
		m.progress.BackupTook = time.Since(began)
		m.compareSize(ctx)
	}
	return m.isStandby(ctx)
}

// copied waits until the new member follows. It returns an error if its directory has not grown for as long as
// gates.catch_up allows: Patroni itself retries forever.
func (m managed) copied(ctx context.Context) error {
	most, state, since := int64(-1), "", time.Now()
	for {
		c, err := m.cluster(ctx)
		member := c.Member(m.newNode.Name)
		if err == nil && member.Up() {
			return nil
		}
		if l := c.Leader(); l != nil && l.Name != m.primary.Name {
			return fmt.Errorf("%w: the leader is %s", errOtherLeader, l.Name)
		}
		if c.Pause {
			return errPaused
		}
		if err == nil && member != nil && member.State != state {
			state, since = member.State, time.Now()
			m.log("Patroni: %s", state)
		}
		if size, err := m.newNode.diskUse(ctx, m.newNode.directories()); err == nil && size.Data+size.WAL > most {
			most, since = size.Data+size.WAL, time.Now()
		}
		if time.Since(since) > m.cell.catchUpTime() {
			return errors.Join(err, fmt.Errorf("the Patroni of %s reports %q, and its directory has not grown beyond %s for %v: look into Patroni's log there", m.newNode.Name, state,
				terminal.Size(most), m.cell.catchUpTime()))
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// halt stops Patroni and the server of a node. Both may be down already.
func (m managed) halt(ctx context.Context, n *Node) error {
	ctx, cancel := context.WithTimeout(ctx, m.cell.shutdownTime())
	defer cancel()
	for asked := false; ; asked = true {
		_, err := m.api.Status(ctx, n.Patroni.API)
		running, runErr := n.running(ctx)
		if runErr != nil {
			return runErr
		}
		if err != nil && !running {
			return nil
		}
		switch {
		case !asked:
			if err := n.stop(ctx, m.cell.shutdownTime()); err != nil {
				return err
			}
		case err != nil: // Patroni has ended and left its server running, as it does in maintenance mode
			server := *n
			server.Stop = nil
			_ = server.stop(ctx, m.cell.shutdownTime()) // it may have ended by now
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the Patroni or the server of %s is still running: %w", n.Name, err)
		}
	}
}

// join gives a standby that passed its gates the tags of the old one.
func (m managed) join(ctx context.Context) error {
	if err := m.tag(ctx, m.newNode, m.progress.Tags); err != nil {
		return err
	}
	return m.retirement.join(ctx)
}

// retire stops a node that was replaced. If its Patroni is started again it is a standby that never becomes
// the leader.
func (m managed) retire(ctx context.Context) error {
	if err := m.mustNotLead(ctx, m.oldNode); err != nil {
		return err
	}
	if err := m.tag(ctx, m.oldNode, standbyTags); err != nil {
		return err
	}
	if err := m.halt(ctx, m.oldNode); err != nil {
		return err
	}
	m.progress.Replaced = true
	return nil
}

// mustNotLead returns an error if a node is the leader, or if the leader is unknown.
func (m managed) mustNotLead(ctx context.Context, n *Node) error {
	leader, err := m.leader(ctx)
	if err == nil && leader == n.Name {
		err = fmt.Errorf("%w: the leader is %s", errOtherLeader, n.Name)
	}
	return err
}

// unretire starts a standby again.
func (m managed) unretire(ctx context.Context) error {
	if err := m.tag(ctx, m.oldNode, m.progress.Tags); err != nil {
		return err
	}
	if _, err := m.api.Status(ctx, m.oldNode.Patroni.API); err != nil {
		if err := m.oldNode.start(ctx); err != nil {
			return err
		}
	}
	err := m.waitFor(ctx, func(c patroni.Cluster) string {
		if !c.Member(m.oldNode.Name).Up() {
			return m.oldNode.Name + " does not follow"
		}
		return ""
	})
	if err == nil {
		m.progress.Replaced = false
	}
	return err
}

// remove stops a new member that will not be used. Patroni drops its slot itself.
func (m managed) remove(ctx context.Context) error {
	if m.progress.Tags == nil || m.progress.Made == "" { // it has not been made
		return nil
	}
	if err := m.mustNotLead(ctx, m.newNode); err != nil {
		return err
	}
	there, err := m.newNode.exists(ctx, m.newNode.Patroni.Config)
	if err == nil && there {
		err = errors.Join(m.tag(ctx, m.newNode, standbyTags), m.halt(ctx, m.newNode))
	}
	if err != nil {
		m.log("%s could not be stopped: %v", m.newNode.Name, err)
	}
	return nil
}
