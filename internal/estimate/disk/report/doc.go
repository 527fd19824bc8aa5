// Package report shows what filesystems would store for a directory, as computed by internal/estimate/disk: as a
// table, as JSON and as a web page, with advice.
package report
