// Package top shows the current state of gateways on a terminal: cinch top.
//
// rates.go compares two states of pages, screen.go formats them as text, terminal.go redraws the
// screen and reads keys, watch.go polls the pages, print.go writes lines for programs.
package top
