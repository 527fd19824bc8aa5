// Package report says what gateways have saved between two times, in bytes, CPU and money, for the person who pays.
//
//	html.go        the report as a web page
//	text.go        the report for a terminal
//	report.go      the report: rows by gateway and rule, before and after
//	billed.go      the bill beside it
//	phases.go      when compression was turned on, and what is sent for each byte that came in, with an interval
//	counters.go    what the counters of a Prometheus grew by, over restarts
//	prometheus.go  what a Prometheus answers
//	collect.go     what admin pages remember, in steps of time
package report
