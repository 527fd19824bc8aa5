package postgres

import (
	"fmt"
	"strings"

	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

// learn adds the nondeterministic columns in a server's description.
func (c *catalog) learn(d *schemaInfo, functions sql.Functions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range d.defaults {
		if !one.generated && sql.Analyze("SELECT "+strings.ReplaceAll(one.expression, "::regclass", ""), functions).Nondeterministic { // nextval('…'::regclass)
			c.excludeLocked(one.table, one.name, "default "+one.expression)
		}
	}
	for _, t := range d.triggers {
		c.learnTrigger(t, functions)
	}
	for _, one := range d.defaults {
		if one.generated {
			c.learnGenerated(one, functions)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, v := range d.views {
			changed = c.learnView(v, d.relations[v.view]) || changed
		}
	}
}

// learnTrigger examines the source of a trigger's function, if it is readable.
func (c *catalog) learnTrigger(t trigger, functions sql.Functions) {
	why := "trigger " + t.name + " sets it"
	if t.function == "moddatetime" {
		c.excludeLocked(t.table, strings.TrimSuffix(t.arguments, `\000`), why)
		return
	}
	columns := sql.Assigned(t.source, functions)
	for _, column := range columns {
		c.excludeLocked(t.table, column, why)
	}
	if len(columns) == 0 && sql.Analyze(t.source, functions).Nondeterministic {
		c.notes[fmt.Sprintf("table %s has the trigger %s, whose function uses the time, random numbers or the like: if it writes them, leave the columns out with --ignore-column", t.table, t.name)] = true
	}
}

// learnGenerated leaves out a column that is generated from columns that are left out.
func (c *catalog) learnGenerated(one column, functions sql.Functions) {
	words := sql.Analyze("SELECT "+one.expression, functions).Words
	for of := range c.excluded[one.table] {
		if words[of] != 0 {
			c.excludeLocked(one.table, one.name, "generated from "+of)
			return
		}
	}
}

// learnView leaves out the columns of a view that may show a column that is left out: the one of the same
// name or, without it, all of the same type.
func (c *catalog) learnView(v dependency, view *relation) (changed bool) {
	if c.excluded[v.table][v.column] == "" || view == nil {
		return false
	}
	var alike []string
	for name, kind := range v.kinds {
		if name == v.column {
			alike = []string{name}
			break
		}
		if kind == v.kind {
			alike = append(alike, name)
		}
	}
	for _, name := range alike {
		if c.excluded[view.name][name] == "" {
			c.excludeLocked(view.name, name, "from "+v.table+"."+v.column)
			changed = true
		}
	}
	return changed
}

// setRelations sets a server's tables and serial columns. The control's do not replace production's.
func (c *catalog) setRelations(d *schemaInfo, production bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fromProduction && !production {
		return
	}
	c.relations, c.serials, c.fromProduction = d.relations, d.serials, production
	c.names = map[string]bool{}
	for _, r := range d.relations {
		c.names[r.name] = true
	}
}
