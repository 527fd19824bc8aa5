// Package docs checks the documentation: links have targets, alerts use existing metrics, and examples of
// configurations are valid.
package docs
