// Package plan compares the predictions of 'cinch plan' with results on real servers.
package plan
