// Package top shows the current state of gateways on a terminal: cinch top.
//
// rates.go compares two states of pages, screen.go formats them as text, model.go redraws the screen and
// handles keys.
package top
