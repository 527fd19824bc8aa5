// Package plan tests what 'cinch plan' predicts against what then happens on real servers.
package plan
