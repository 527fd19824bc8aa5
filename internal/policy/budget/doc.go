// Package budget adapts the compression setting of each value so that a gateway stays within its limits on
// CPU time and latency. It is pure: time and chance are arguments.
//
//	governor.go  the limits, and the step of each value
//	bucket.go    the remaining budget, as a fill level
//	stats.go     statistics: the step of most values, and the shares of all steps
//	step.go      the steps, and the settings that they result in
//
// ScyllaDB compresses messages with zstd until a quota of CPU time is used up, and with lz4 until the next
// quota begins. The quota holds exactly, and some share of the messages gets the better codec without that
// share being computed. This package does the same with several steps. The quota is a bucket that fills
// steadily and from which all compressing takes. Its fill level, the height, determines which two steps
// values get, and which share of them gets the better one:
//
//	full  ........................  every value by its rule
//	                    \  some fast, the more the lower the level
//	2/3   ........................  every value fast
//	                    \  some lz4
//	1/3   ........................  every value lz4
//	                    \  some raw
//	empty ........................  every value raw, until the bucket has filled again
//
// Under a steady load the height settles where values cost just what flows in. The cost of a step need not be
// known, as long as it is at most that of the step above. There is no flapping, since no threshold decides.
// The time spent in any period t is at most the limit times t, plus once the content of a full bucket, which
// is the limit times one second.
//
// The latency limit works in the same way. Its bucket fills with each value, and each value that took longer
// than the limit takes about a hundred times as much from it, so that it settles where about one value in a
// hundred does.
//
// Decompressing takes nothing from either: it must be done in any case, and a lower step would save nothing.
package budget
