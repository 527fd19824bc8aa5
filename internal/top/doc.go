// Package top shows what gateways do now, at a terminal: cinch top.
//
// rates.go compares what pages say at two times, screen.go lays it out as text, model.go redraws it and takes keys.
package top
