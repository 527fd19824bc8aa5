// Package effort decides how hard compressing tries, value by value, so that a gateway stays within the CPU
// time and the latency that it was given. It is pure: time is an argument, and so is chance.
//
//	governor.go  the limits, and which step a value gets
//	bucket.go    what may be spent still, and the height that it stands at
//	review.go    what is told of it: which step most values get, and their shares
//	step.go      the steps, and what they make of a setting
//
// ScyllaDB gives messages zstd until a quota of CPU time is used up, and lz4 until the next one begins: it holds
// exactly, and a share of the messages gets the better codec without anybody having worked out that share. The
// same is done here, over several steps: the quota is a bucket that fills steadily, all sealing takes from it,
// and the height of what is left in it says which two steps values get, and which share of them gets the better:
//
//	full  ........................  every value as its rule says
//	                    \  some fast, more of them the lower it is
//	2/3   ........................  every value fast
//	                    \  some lz4
//	1/3   ........................  every value lz4
//	                    \  some raw
//	empty ........................  every value raw, until there is something in it again
//
// Under a steady load the height comes to rest where values cost just what flows in. Nothing has to be known of
// what a step costs: less than the one above it, or the same. There is no flapping either, as nothing is decided
// by a threshold. What is spent in any time t is at most the limit times t, and once what a full bucket holds,
// which is the limit times one second.
//
// The latency is kept in the same way. Its bucket fills with each value and is emptied by those that took longer
// than the limit, a hundred times faster, so that it comes to rest where one value in a hundred does.
//
// Opening takes nothing from either: what was sealed has to be opened, and a lower step would save nothing there.
package effort
