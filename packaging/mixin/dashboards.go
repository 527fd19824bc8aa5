package main

import (
	"strings"
)

// targets returns the panel's queries with matchers in place of each %s.
func (p *panel) targets(matchers string) []object {
	var list []object
	for i, q := range p.queries {
		list = append(list, object{
			"refId": string(rune('A' + i)), "datasource": source, "legendFormat": q.legend, "range": true, "editorMode": "code",
			"expr": strings.ReplaceAll(q.expr, "%s", matchers),
		})
	}
	return list
}

func dashboards() []*dashboard { return []*dashboard{overview(), rules(), process()} }

func stat(title, unit, expr, about string) panel {
	return panel{kind: "stat", title: title, about: about, unit: unit, queries: []query{{expr, title}}}
}

func graph(title, unit, about string, queries ...query) panel {
	return panel{kind: "timeseries", title: title, about: about, unit: unit, queries: queries}
}

func stacked(p panel) panel {
	p.stacked = true
	return p
}

// Bytes of values before and after compression. Values left uncompressed count on both sides.
const (
	before = `(sum(rate(cinch_value_raw_bytes_total{%s}[$__rate_interval])) + (sum(rate(cinch_value_left_bytes_total{%s}[$__rate_interval])) or vector(0)))`
	after  = `(sum(rate(cinch_value_stored_bytes_total{%s}[$__rate_interval])) + (sum(rate(cinch_value_left_bytes_total{%s}[$__rate_interval])) or vector(0)))`
	cpu    = `rate(cinch_seal_cpu_seconds_total{%s}[$__rate_interval])`
	opened = `rate(cinch_open_cpu_seconds_total{%s}[$__rate_interval])`
)

// Dollars a month at the current rate, by gateway and purpose: inter-zone traffic saved, less CPU time.
// Decompressed bytes count as saved if their price says so. Each part has a label of its own, so that a part
// without samples does not remove the others.
const (
	pricedPer  = `cinch_serve_price_dollars{%s, per="`
	ofGateway  = `"} * on (job, instance, gateway) group_left () sum by (job, instance, gateway) (`
	traffic    = "(" + pricedPer + "saved_byte" + ofGateway + `rate(cinch_value_raw_bytes_total{%s}[$__rate_interval]) - rate(cinch_value_stored_bytes_total{%s}[$__rate_interval])) or ` + pricedPer + "opened_byte" + ofGateway + `rate(cinch_opened_raw_bytes_total{%s}[$__rate_interval]) - rate(cinch_opened_stored_bytes_total{%s}[$__rate_interval])))`
	processing = "(" + pricedPer + "cpu_second" + ofGateway + cpu + " or " + opened + "))"
	aMonth     = "2628000 * "
)

func overview() *dashboard {
	return &dashboard{
		name: "cinch-overview", title: "Cinch", gateways: true,
		about: "What compression saves, what it costs, and whether clients are served.",
		rows: []row{
			{"Now", 4, []panel{
				stat("Bytes saved", "percentunit", "1 - "+after+" / "+before, "Share of the bytes of values that compression removes; uncompressed values count in the total."),
				stat("Saved a second", "Bps", before+" - "+after, "Bytes of values before compression, minus those after."),
				stat("CPU", "short", "sum("+cpu+") + sum("+opened+")", "Cores used for compressing and decompressing, by the elapsed time of codec calls."),
				stat("Added p99", "s", `histogram_quantile(0.99, sum by (le) (rate(cinch_added_latency_seconds_bucket{%s}[$__rate_interval])))`, "Time that the gateways add to an exchange, 99th percentile."),
				stat("Gateways ready", "short", `sum(cinch_serve_ready{%s})`, "Gateways that would serve clients."),
				stat("Gateways not ready", "short", `sum(1 - cinch_serve_ready{%s})`, "Gateways that would not serve clients. /readyz says why."),
			}},
			{"What it saves", 8, []panel{
				graph("Values, before and after", "Bps", "Bytes of values that rules cover.", query{before, "before"}, query{after, "after"}),
				graph("Ratio by gateway", "short", "Bytes of compressed values before compression, divided by those after: 4 means a quarter of the size.",
					query{`sum by (gateway) (rate(cinch_value_raw_bytes_total{%s}[$__rate_interval])) / sum by (gateway) (rate(cinch_value_stored_bytes_total{%s}[$__rate_interval]))`, "{{gateway}}"}),
				graph("On the wire", "Bps", "All bytes sent and received, TLS included: towards clients, and towards upstreams.",
					query{`sum by (side) (rate(cinch_sent_bytes_total{%s}[$__rate_interval])) + sum by (side) (rate(cinch_received_bytes_total{%s}[$__rate_interval]))`, "{{side}}"}),
			}},
			{"What it costs", 8, []panel{
				stacked(graph("CPU by gateway", "short", "Cores used for compressing and decompressing.",
					query{"sum by (gateway) (" + cpu + ")", "{{gateway}} compress"}, query{"sum by (gateway) (" + opened + ")", "{{gateway}} decompress"})),
				graph("Added latency", "s", "Time that the gateway adds to an exchange.",
					query{`histogram_quantile(0.5, sum by (gateway, le) (rate(cinch_added_latency_seconds_bucket{%s}[$__rate_interval])))`, "{{gateway}} p50"},
					query{`histogram_quantile(0.99, sum by (gateway, le) (rate(cinch_added_latency_seconds_bucket{%s}[$__rate_interval])))`, "{{gateway}} p99"}),
			}},
			{"Budgets, where they are set", 8, []panel{
				graph("CPU budget", "short", "Cores used for compressing, and the limit (cpu_budget).",
					query{`sum by (gateway) (rate(cinch_cpu_budget_spent_seconds_total{%s}[$__rate_interval]))`, "{{gateway}}"}, query{`sum by (gateway) (cinch_cpu_budget_cores{%s})`, "{{gateway}} budget"}),
				stacked(graph("What values get", "percentunit", "Share of values that get the rule's setting, or a lower step.", query{`avg by (step) (cinch_effort_share{%s})`, "{{step}}"})),
			}},
			{"Money, at the prices of the configuration", 8, []panel{
				stat("Saved a month", "currencyUSD", aMonth+"sum("+traffic+" or -"+processing+")", "At the current rate: price of the traffic saved between zones, minus price of the CPU time. Below zero, compression costs more than it saves."),
				graph("Saved a month, by gateway", "currencyUSD", "At the current rate, minus the price of CPU time.", query{aMonth + "sum by (gateway) (" + traffic + " or -" + processing + ")", "{{gateway}}"}),
				graph("Traffic and CPU", "currencyUSD", "A month at the current rate: price of the traffic saved, and price of the CPU time spent.",
					query{aMonth + "sum(" + traffic + ")", "traffic saved"}, query{aMonth + "sum(" + processing + ")", "CPU spent"}),
			}},
			{"Clients", 8, []panel{
				stacked(graph("Connections", "short", "Client connections open now.", query{`sum by (gateway) (cinch_connections{%s})`, "{{gateway}}"})),
				graph("Errors", "ops", "By class; docs/METRICS.md says what each means.", query{`sum by (gateway, class) (rate(cinch_errors_total{%s}[$__rate_interval])) > 0`, "{{gateway}} {{class}}"}),
				graph("Ready", "short", "1 if the gateway would serve clients.", query{`min by (instance, gateway) (cinch_serve_ready{%s})`, "{{instance}} {{gateway}}"}),
			}},
		},
	}
}

func rules() *dashboard {
	return &dashboard{
		name: "cinch-rules", title: "Cinch: rules and dictionaries", gateways: true,
		about: "What each rule saves, what it leaves alone and why, and whether dictionaries still fit.",
		rows: []row{
			{"Rules", 9, []panel{
				stacked(graph("Saved", "Bps", "Bytes of values before compression, minus those after.",
					query{`sum by (gateway, rule) (rate(cinch_value_raw_bytes_total{%s}[$__rate_interval])) - sum by (gateway, rule) (rate(cinch_value_stored_bytes_total{%s}[$__rate_interval]))`, "{{gateway}} {{rule}}"})),
				graph("Ratio", "short", "Bytes of compressed values before compression, divided by those after.",
					query{`sum by (gateway, rule) (rate(cinch_value_raw_bytes_total{%s}[$__rate_interval])) / sum by (gateway, rule) (rate(cinch_value_stored_bytes_total{%s}[$__rate_interval]))`, "{{gateway}} {{rule}}"}),
			}},
			{"Values left uncompressed, and values read", 9, []panel{
				stacked(graph("Values left uncompressed", "ops", "Values that a rule covers but that stay uncompressed, by reason.", query{`sum by (rule, reason) (rate(cinch_values_left_total{%s}[$__rate_interval]))`, "{{rule}} {{reason}}"})),
				stacked(graph("Values decompressed", "ops", "Values decompressed for clients.", query{`sum by (gateway, codec) (rate(cinch_values_opened_total{%s}[$__rate_interval]))`, "{{gateway}} {{codec}}"})),
				stacked(graph("Decompressed in place", "ops", "Values decompressed in the store, because a command needed the plain value.", query{`sum by (gateway, reason) (rate(cinch_inflated_total{%s}[$__rate_interval]))`, "{{gateway}} {{reason}}"})),
			}},
			{"Dictionaries", 9, []panel{
				graph("Promised and observed ratio", "short", "Observed below promised: values have changed, and a new dictionary is due.",
					query{`max by (gateway, rule) (cinch_dictionary_promised_ratio{%s}) > 0`, "{{gateway}} {{rule}} promised"}, query{`max by (gateway, rule) (cinch_dictionary_observed_ratio{%s}) > 0`, "{{gateway}} {{rule}} observed"}),
				graph("Trainings in the last hour", "short", "Begun, rolled out and refused.",
					query{`sum by (gateway, rule, reason) (increase(cinch_dictionary_trainings_total{%s}[1h]))`, "{{gateway}} {{rule}} begun: {{reason}}"},
					query{`sum by (gateway, rule) (increase(cinch_dictionary_rollouts_total{%s}[1h]))`, "{{gateway}} {{rule}} rolled out"},
					query{`sum by (gateway, rule, reason) (increase(cinch_dictionary_refused_total{%s}[1h]))`, "{{gateway}} {{rule}} refused: {{reason}}"}),
			}},
			{"Packing in the background", 9, []panel{
				graph("Done", "percentunit", "Share of the current pass that is done.", query{`max by (gateway) (cinch_pack_done_ratio{%s})`, "{{gateway}}"}),
				graph("Work", "percentunit", "Share of the time that the packer works; it works less if the server is slow.", query{`max by (gateway) (cinch_pack_duty_ratio{%s})`, "{{gateway}}"}),
				graph("Keys scanned", "ops", "A pass that scans no keys has stalled.", query{`sum by (gateway) (rate(cinch_pack_keys_total{%s}[$__rate_interval]))`, "{{gateway}}"}),
			}},
		},
	}
}

func process() *dashboard {
	return &dashboard{
		name: "cinch-process", title: "Cinch: processes", about: "CPU, memory and limits of the processes.",
		rows: []row{
			{"Machine", 9, []panel{
				graph("CPU", "short", "Cores used by the process.", query{`sum by (instance) (rate(process_cpu_seconds_total{%s}[$__rate_interval]))`, "{{instance}}"}),
				graph("Memory", "bytes", "Resident.", query{`sum by (instance) (process_resident_memory_bytes{%s})`, "{{instance}}"}),
				graph("File descriptors", "percentunit", "Share of the limit in use.", query{`max by (instance) (process_open_fds{%s} / process_max_fds{%s})`, "{{instance}}"}),
			}},
			{"Memory for values in flight", 9, []panel{
				graph("In use", "bytes", "Bytes of memory.budget in use, by direction.", query{`sum by (instance, direction) (cinch_budget_in_use_bytes{%s})`, "{{instance}} {{direction}}"}),
				graph("Waiting", "short", "Seconds per second that values wait for memory, summed over values.", query{`sum by (instance, direction) (rate(cinch_budget_wait_seconds_total{%s}[$__rate_interval]))`, "{{instance}} {{direction}}"}),
			}},
			{"Life", 9, []panel{
				graph("Uptime", "s", "Falls to zero at a restart.", query{`max by (instance) (time() - process_start_time_seconds{%s})`, "{{instance}}"}),
				graph("Certificates", "s", "Time until the first one expires.", query{`min by (instance, gateway, use) (cinch_serve_certificate_expiry_timestamp_seconds{%s}) - time()`, "{{instance}} {{gateway}} {{use}}"}),
			}},
		},
	}
}
