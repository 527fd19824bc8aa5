// Package licences checks that THIRD_PARTY_LICENSES, written by packaging/notice, lists the modules that the
// program is built from.
package licences
