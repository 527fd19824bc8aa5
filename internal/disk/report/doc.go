// Package report shows what filesystems would store of a directory, as internal/disk computed it:
// as a table, as JSON and as a web page, with what experience adds.
package report
