package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// CellPlan describes what Run would do.
type CellPlan struct {
	Cell     string     `json:"cell"`
	Problems int        `json:"problems"` // problems that prevent it
	Nodes    []NodePlan `json:"nodes"`    // in order, the current one first; none: the roll-out is done
}

// NodePlan describes how a node would be replaced.
type NodePlan struct {
	Node        string     `json:"node"`
	Replacement string     `json:"replacement"`
	Role        string     `json:"role"` // standby or primary
	Replaced    bool       `json:"replaced"`
	Findings    []Finding  `json:"findings"`
	Steps       []StepPlan `json:"steps"`
}

// StepPlan describes what a step would do.
type StepPlan struct {
	Step string   `json:"step"`
	Text []string `json:"text"` // lines
}

// Plan prints what Run would do, and changes nothing. It returns how many problems prevent it.
func (r *Rollout) Plan(ctx context.Context, w io.Writer) (problems int, err error) {
	nodes := 0
	err = r.eachPlan(ctx, func(p NodePlan) {
		nodes++
		problems += p.print(w)
	})
	if err == nil && nodes == 0 {
		fmt.Fprintln(w, "the roll-out is done, nothing is left to do")
	}
	return problems, err
}

// PlanJSON writes the same as JSON: a CellPlan.
func (r *Rollout) PlanJSON(ctx context.Context, w io.Writer) (problems int, err error) {
	c := CellPlan{Cell: r.Cell.Name, Nodes: []NodePlan{}}
	err = r.eachPlan(ctx, func(p NodePlan) {
		c.Nodes = append(c.Nodes, p)
		for _, f := range p.Findings {
			if f.Problem {
				c.Problems++
			}
		}
	})
	if err == nil {
		err = json.NewEncoder(w).Encode(c)
	}
	return c.Problems, err
}

// eachPlan calls do with the plan of each node. Planning a node takes time, so each is passed on at once.
func (r *Rollout) eachPlan(ctx context.Context, do func(NodePlan)) (err error) {
	if err := r.open(); err != nil {
		return err
	}
	defer r.unlock()
	if r.state == nil {
		if r.state, err = r.order(ctx); err != nil {
			return err
		}
	}
	for at := r.state.At; at < len(r.state.Order) && !r.state.Done; at++ {
		r.state.At = at
		n := r.node()
		p := NodePlan{Node: n.Name, Replacement: n.Replacement.Name, Role: "standby", Replaced: r.state.Nodes[n.Name].Replaced, Findings: []Finding{}, Steps: []StepPlan{}}
		if r.state.primaryTurn() {
			p.Role = "primary"
		}
		if !p.Replaced {
			if p.Findings, err = r.strategy().find(ctx); err != nil {
				return err
			}
			p.Steps = stepPlans(r.planned(n))
		}
		do(p)
	}
	return nil
}

func (p NodePlan) print(w io.Writer) (problems int) {
	if p.Replaced {
		fmt.Fprintf(w, "%s has been replaced by %s\n", p.Node, p.Replacement)
		return 0
	}
	fmt.Fprintf(w, "%s (%s) is replaced by %s\n", p.Node, p.Role, p.Replacement)
	problems = printFindings(w, p.Findings)
	for _, s := range p.Steps {
		for i, line := range s.Text {
			name := s.Step
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(w, "  %-10s %s\n", name, line)
		}
	}
	return problems
}

// nameWidth is the width of the column with the name of a step.
const nameWidth = 11

// stepPlans groups the lines of a plan by step. A line without a name belongs to the step before it.
func stepPlans(lines []string) (list []StepPlan) {
	for _, line := range lines {
		if name := strings.TrimSpace(line[:nameWidth]); name != "" {
			list = append(list, StepPlan{Step: name})
		}
		last := &list[len(list)-1]
		last.Text = append(last.Text, line[nameWidth:])
	}
	return list
}

func printFindings(w io.Writer, found []Finding) (problems int) {
	for _, f := range found {
		mark := "     "
		if f.Problem {
			problems++
			mark = "FIX  "
		}
		fmt.Fprintf(w, "  %s%s\n", mark, f.Text)
		if f.Hint != "" {
			fmt.Fprintf(w, "       hint: %s\n", f.Hint)
		}
	}
	return problems
}

// planned returns the lines of the plan for a node, in order.
func (r *Rollout) planned(n *Node) []string {
	newNode, from, c := n.Replacement, r.primary(), r.Cell
	lines := []string{
		"provision  " + orHook(c.Hooks.Provision, newNode.shown("mkdir", "-p", newNode.Directory)),
		"backup     " + orHook(c.Hooks.Restore, newNode.shown(newNode.program("pg_basebackup"), c.backupArguments(newNode, from)...)),
		"           " + r.backupTime(n),
		"start      " + newNode.starting(),
		fmt.Sprintf("catch up   to within %s of WAL; fails after %v without progress", terminal.Size(int64(c.Gates.Lag)), c.catchUpTime()),
		fmt.Sprintf("gates      lag, libraries, collations, rows of %s of each table%s", terminal.Size(int64(c.Gates.Sample)), andHook(c.Hooks.Gate)),
	}
	if r.state.primaryTurn() {
		lines = append(lines,
			fmt.Sprintf("hold       %s; open transactions get %v", orHook(c.Hooks.Hold, "new transactions wait in the gateway at "+c.Gateway.Admin), c.holdTime()),
			fmt.Sprintf("fence      touch %s; %s; at most %v until %s has all WAL%s", n.signalFile(), n.stopping(), c.shutdownTime(), newNode.Name, andHook(c.Hooks.Fence)),
			"promote    SELECT pg_promote() at "+newNode.Name,
			"move       "+orHook(c.Hooks.Move, "clients continue at "+newNode.Name),
			"follow     the standbys follow "+newNode.Name,
		)
	} else {
		lines = append(lines, "join       "+orHook(c.Hooks.Join, "-"), "retire     "+n.stopping())
	}
	if m, ok := r.strategy().(managed); ok {
		lines = plannedByPatroni(m, lines)
	}
	lines = append(lines, "keep       until cinch rollout confirm")
	if r.DestroyOld {
		return append(lines, "destroy    "+orHook(c.Hooks.Destroy, n.shown("find", n.Directory, "-mindepth", "1", "-delete")))
	}
	return append(lines, "destroy    -, the data of "+n.Name+" remains in "+n.Directory)
}

// plannedByPatroni replaces the lines for steps that Patroni does differently.
func plannedByPatroni(m managed, lines []string) []string {
	old, newNode, c := m.oldNode, m.newNode, m.cell
	const tags = "nofailover, noloadbalance and nosync"
	instead := map[string]string{
		"provision": orHook(c.Hooks.Provision, newNode.shown("mkdir", "-p", newNode.Directory)) + "; " + newNode.Patroni.Config + " by " + old.Patroni.Config + ", with " + tags,
		"backup":    orHook(c.Hooks.Restore, "by Patroni, when it is started"),
		"join":      "without " + tags + andHook(c.Hooks.Join),
		"retire":    old.Name + " gets " + tags + "; " + old.stopping(),
		"fence":     newNode.Name + " has replayed all commits",
		"promote":   fmt.Sprintf("POST %s/switchover {leader: %s, candidate: %s}", newNode.Patroni.API, old.Name, newNode.Name),
		"follow":    "the standbys and " + old.Name + " follow " + newNode.Name + " by themselves; " + old.Name + " gets " + tags + "; " + old.stopping(),
	}
	for i, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		if text, ok := instead[name]; ok {
			lines[i] = fmt.Sprintf("%-10s %s", name, text)
		}
	}
	return lines
}

func orHook(command []string, otherwise string) string {
	if len(command) > 0 {
		return strings.Join(command, " ")
	}
	return otherwise
}

func andHook(command []string) string {
	if len(command) > 0 {
		return "; " + strings.Join(command, " ")
	}
	return ""
}

// backupRate is the assumed speed of a base backup, in bytes per second, until one has been made.
const backupRate = 100 << 20

// backupTime returns how long a base backup may take, at the speed of an earlier one of the roll-out if there
// was one.
func (r *Rollout) backupTime(n *Node) string {
	data, rate, by := r.state.Nodes[n.Name].Old.Data, float64(backupRate), "at 100 MiB/s"
	for _, name := range r.state.Order {
		if p := r.state.Nodes[name]; p.BackupTook > 0 && p.Old.Data > 0 {
			rate, by = float64(p.Old.Data)/p.BackupTook.Seconds(), "at the speed of "+name
		}
	}
	took := time.Duration(float64(data) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s to copy: about %v %s", terminal.Size(data), max(took, time.Second), by)
}

// shown returns a command as an operator would type it.
func (n *Node) shown(name string, args ...string) string {
	return strings.Join(remoteCommand(n.Run, append([]string{name}, args...)...), " ")
}

func (n *Node) starting() string {
	return orHook(n.Start, n.shown(n.program("pg_ctl"), "start", "-D", n.Directory))
}

func (n *Node) stopping() string {
	return orHook(n.Stop, n.shown(n.program("pg_ctl"), "stop", "-D", n.Directory, "-m", "fast"))
}
