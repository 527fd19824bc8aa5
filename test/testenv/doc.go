// Package testenv starts real servers, and the gateway in front of them, as processes that
// belong to one test: each on free ports and in its own directory, stopped when the test
// ends, with its output in the log when the test fails.
//
// Nothing is mocked. Where a server is not installed a test is skipped, except with CI=true,
// where it fails: see test/servers, which installs them.
//
// Every test program that imports this package links what it imports: clients of servers stay out of it. MongoDB's server is
// in package mongotest for that reason.
package testenv
