// Package arrows holds no code, only the test of which package may import which.
// The tables in it are the architecture; docs/ARCHITECTURE.md says why.
package arrows
