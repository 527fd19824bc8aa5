// Package limits measures the memory of a running gateway as the kernel counts it (VmRSS and its peak,
// VmHWM), with clients that behave well or badly. The limits are those documented for default settings; no
// test asserts a duration.
//
// Linux only: the numbers come from /proc.
package limits
