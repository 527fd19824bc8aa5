package main

// dashboard has rows of panels that share its width of 24 columns.
type dashboard struct {
	name, title, about string
	gateways           bool // can be narrowed to gateways
	rows               []row
}

type row struct {
	title  string
	height int
	panels []panel
}

// panel shows the results of its queries. In queries %s stands for the matchers of the dashboard's variables.
type panel struct {
	kind    string // stat or timeseries
	title   string
	about   string
	unit    string // one of Grafana's
	stacked bool
	queries []query
}

type query struct{ expr, legend string }

type object = map[string]any

// schemaVersion is the model version of Grafana 10; later versions of Grafana migrate it.
const schemaVersion = 39

var source = object{"type": "prometheus", "uid": "${datasource}"}

func (d *dashboard) model() object {
	return object{
		"uid": d.name, "title": d.title, "description": d.about, "tags": []string{"cinch"},
		"schemaVersion": schemaVersion, "version": 1, "editable": false, "graphTooltip": 1, "refresh": "30s", "timezone": "",
		"time":        object{"from": "now-6h", "to": "now"},
		"annotations": object{"list": []object{}},
		"links":       []object{{"type": "dashboards", "tags": []string{"cinch"}, "title": "Cinch", "asDropdown": true, "includeVars": true, "keepTime": true}},
		"templating":  object{"list": d.variables()},
		"panels":      d.panels(),
	}
}

func (d *dashboard) variables() []object {
	list := []object{
		{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "hide": 0},
		variable("job", "Job", "label_values(cinch_serve_ready, job)"),
		variable("instance", "Instance", `label_values(cinch_serve_ready{job=~"$job"}, instance)`),
	}
	if d.gateways {
		list = append(list, variable("gateway", "Gateway", `label_values(cinch_serve_ready{job=~"$job", instance=~"$instance"}, gateway)`))
	}
	return list
}

func variable(name, label, query string) object {
	return object{
		"name": name, "label": label, "type": "query", "datasource": source, "query": query, "definition": query,
		"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".+", "current": object{"text": "All", "value": "$__all"},
	}
}

func (d *dashboard) matchers() string {
	if d.gateways {
		return `job=~"$job", instance=~"$instance", gateway=~"$gateway"`
	}
	return `job=~"$job", instance=~"$instance"`
}

// panels returns the rows from top to bottom, each below a bar with its title.
func (d *dashboard) panels() []object {
	var list []object
	y := 0
	add := func(o object, width, height, x int) {
		o["id"], o["gridPos"] = len(list)+1, object{"x": x, "y": y, "w": width, "h": height}
		list = append(list, o)
	}
	for _, r := range d.rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, columns, 1, 0)
		y++
		width := columns / len(r.panels)
		for i, p := range r.panels {
			add(p.model(d.matchers()), width, r.height, i*width)
		}
		y += r.height
	}
	return list
}

const columns = 24

func (p *panel) model(matchers string) object {
	defaults := object{"unit": p.unit, "min": 0}
	o := object{
		"type": p.kind, "title": p.title, "description": p.about, "datasource": source, "targets": p.targets(matchers),
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}},
	}
	if p.kind == "stat" {
		o["options"] = object{
			"colorMode": "none", "graphMode": "area", "reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
		return o
	}
	stacking := object{"mode": "none"}
	if p.stacked {
		stacking = object{"mode": "normal"}
	}
	defaults["custom"] = object{"drawStyle": "line", "fillOpacity": 10, "lineWidth": 1, "showPoints": "never", "spanNulls": false, "stacking": stacking}
	o["options"] = object{
		"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
	return o
}
