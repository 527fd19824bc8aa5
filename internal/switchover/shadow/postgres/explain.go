package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/plans"
)

// explainStatement is the name of the prepared statement for EXPLAIN.
const explainStatement = "cinch_explained"

// explainSettings makes EXPLAIN use a generic plan, limits waiting, and keeps functions that the planner
// calls from writing.
const explainSettings = "SET default_transaction_read_only = on; SET statement_timeout = '5s'; SET lock_timeout = '1s'; SET plan_cache_mode = force_generic_plan"

// Explain returns a target's plan of a statement for any values of its parameters. The statement is not
// executed: EXPLAIN runs without ANALYZE.
func (p *Protocol) Explain(ctx context.Context, t *shadow.Target, of any) plans.Plan {
	steps, err := explain(ctx, t, of.(example))
	if err == nil {
		return plans.Plan{Steps: steps}
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return plans.Plan{Error: "error " + refused.Code} // the error's text may contain values
	}
	return plans.Plan{Error: err.Error()}
}

func explain(ctx context.Context, t *shadow.Target, of example) ([]plans.Step, error) {
	parameters, err := startupParameters(of.startup)
	if err != nil {
		return nil, err
	}
	parameters["application_name"] = applicationName
	c, err := connect(ctx, t.Upstream, parameters)
	if err != nil {
		return nil, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, explainSettings).ReadAll(); err != nil {
		return nil, err
	}
	prepared, err := c.Prepare(ctx, explainStatement, of.text, nil)
	if err != nil {
		return nil, err
	}
	values := ""
	if n := len(prepared.ParamOIDs); n > 0 {
		values = "(" + strings.Repeat("NULL, ", n-1) + "NULL)" // a generic plan ignores them
	}
	row, err := queryRow(ctx, c, "EXPLAIN (FORMAT JSON) EXECUTE "+explainStatement+values)
	if err != nil {
		return nil, err
	}
	var all []struct{ Plan node }
	if err := json.Unmarshal([]byte(row[0]), &all); err != nil || len(all) == 0 {
		return nil, errors.Join(errors.New("the answer is not a plan"), err)
	}
	return all[0].Plan.steps(nil, 0), nil
}

// node is a node of a plan in EXPLAIN (FORMAT JSON).
type node struct {
	Type      string  `json:"Node Type"`
	Join      string  `json:"Join Type"`
	Strategy  string  `json:"Strategy"`
	Operation string  `json:"Operation"`
	Relation  string  `json:"Relation Name"`
	Index     string  `json:"Index Name"`
	Cost      float64 `json:"Total Cost"`
	Rows      float64 `json:"Plan Rows"`
	Plans     []node  `json:"Plans"`

	IndexCond string   `json:"Index Cond"`
	Recheck   string   `json:"Recheck Cond"`
	HashCond  string   `json:"Hash Cond"`
	MergeCond string   `json:"Merge Cond"`
	JoinCond  string   `json:"Join Filter"`
	Filter    string   `json:"Filter"`
	OneTime   string   `json:"One-Time Filter"`
	SortKey   []string `json:"Sort Key"`
	GroupKey  []string `json:"Group Key"`
}

// maxSteps limits the compared steps. The rest of a plan of very many partitions is not compared.
const maxSteps = 1000

// steps appends a node and its subplans.
func (n node) steps(out []plans.Step, depth int) []plans.Step {
	if len(out) >= maxSteps {
		return out
	}
	s := plans.Step{Depth: depth, Node: n.title(), Cost: n.Cost, Rows: n.Rows}
	for _, d := range []struct{ name, text string }{
		{"Index Cond", n.IndexCond},
		{"Recheck Cond", n.Recheck},
		{"Hash Cond", n.HashCond},
		{"Merge Cond", n.MergeCond},
		{"Join Filter", n.JoinCond},
		{"Filter", n.Filter},
		{"One-Time Filter", n.OneTime},
		{"Sort Key", strings.Join(n.SortKey, ", ")},
		{"Group Key", strings.Join(n.GroupKey, ", ")},
	} {
		if d.text != "" {
			s.Details = append(s.Details, d.name+": "+sql.Mask(d.text))
		}
	}
	out = append(out, s)
	for _, below := range n.Plans {
		out = below.steps(out, depth+1)
	}
	return out
}

func (n node) title() string {
	title := n.Type
	for _, word := range []string{n.Operation, n.Strategy, n.Join} {
		if word != "" && word != "Plain" {
			title = word + " " + title
		}
	}
	if n.Index != "" {
		title += " using " + n.Index
	}
	if n.Relation != "" {
		title += " on " + n.Relation
	}
	return title
}
