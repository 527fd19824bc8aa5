// Package report says what gateways have saved between two times, in bytes, CPU and money, for the person who pays.
//
//	collect.go  what admin pages remember, in steps of time
//	report.go   the report: rows by gateway and rule, before and after
//	phases.go   when compression was turned on, and what is sent for each byte that came in, with an interval
//	text.go     the report for a terminal
package report
