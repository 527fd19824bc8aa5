// Package limits measures how much memory a running gateway takes, as the kernel counts it
// (VmRSS and its peak, VmHWM), while clients behave well, badly and worse. The limits are
// the product's promises under its default settings; nothing here asserts a time.
//
// Linux only: the numbers come from /proc.
package limits
