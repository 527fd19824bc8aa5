// Package docs holds the pages to what they speak of: links lead somewhere, alerts name metrics that there are, and
// examples of configurations are such.
package docs
