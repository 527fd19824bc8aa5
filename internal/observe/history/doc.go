// Package history records the counters of a process: samples of a few hundred series, every 10 s for a day
// and every 5 min for 90 days, in files or in memory, within a size limit. Errors are only logged; they do
// not affect the process.
//
//	history.go                    History: opened, fed with samples, closed
//	query.go                      queries: increases of counters and maxima of gauges, by time step
//	ring.go                       the segments of one resolution: begun, closed, dropped at the limit
//	segment.go                    a segment in a file or in memory
//	dir.go                        files found at the start: merged, truncated, or set aside
//	block.go                      reading frames: blocks, and the points in them
//	frame.go                      the bytes of a frame
//	parsetime.go, lock_unix.go    times as users write them; the lock on a file that is being written
//
// # Segments
//
// A resolution is a sequence of segments, each a file 10s-00000001.hist (or 5m-…), numbered in the order in
// which they are begun. A process appends only to segments of its own, on which it holds a lock: when two
// processes overlap during a replacement, each has its own. A full segment is rewritten compressed, by
// renaming a new file over it. After a crash a segment is read up to the first incomplete frame; at the next
// start small segments are merged. The same points may be in two segments for a moment; readers count them
// once.
//
//	"CinchHis" version:1 form:1 frame*                      form 0, being written
//	"CinchHis" version:1 form:1 length:4 crc32c:4 payload   form 1: length and checksum of the frames,
//	                                                        which are compressed with zstd
//
// A frame is length:4 crc32c:4 body, both of the body, little endian. A body is one of
//
//	'R' writer:16 start index       begins a block: process, milliseconds since 1970, index before the first point
//	'S' kind:1 name gateway rule    a series, numbered from 0 in the order of these frames in a block;
//	                                each text is length and bytes
//	'P' index time (gap value)*     a point: samples since the previous point, milliseconds since it (zigzag), and for
//	                                each changed series how many numbers are skipped, and the change (zigzag)
//
// Numbers are varints as in encoding/binary. Series and values start anew in each block, which makes blocks
// independent: segments are dropped by removing files and merged by concatenation.
//
// # Time
//
// A sample has an index, which counts up in a process, and the time of the clock. Only the index orders
// points, and the limit counts points: a clock that jumps changes the recorded times, but neither loses nor
// duplicates anything. Counters are stored with their process, unchanged, starting from 0 with it. So
// restarts are always detected, and increases are added up over processes. The coarse points of a process
// begin a minute after its start, and end with its end, if that is orderly.
package history
