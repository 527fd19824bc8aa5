// Package report computes what gateways have saved between two times, in bytes, CPU and money, for the person
// who pays.
//
//	html.go        the report as a web page
//	text.go        the report for a terminal
//	report.go      the report: rows by gateway and rule, before and after
//	billed.go      the comparison with a bill
//	comparison.go  when compression was turned on, and the bytes sent per byte received, with an interval
//	prometheus_counters.go  the growth of the counters of a Prometheus, over restarts
//	prometheus.go  queries to Prometheus
//	collect.go     the history of admin pages, in steps of time
package report
