// Package history keeps what a process has counted: samples of a few hundred series, every 10 s for a day and every 5 min for 90
// days, in files or in memory, within a bound. Nothing that goes wrong here is an error of the process: it is a line in the log.
//
//	history.go  History: opened, given samples, closed
//	query.go    what is asked of it: increases of counters and highs of gauges, by steps of time
//	ring.go     the segments of one resolution: begun, closed, dropped at the bound
//	segment.go  a segment in a file or in memory
//	dir.go      files that are found at the start: merged, cut, or set aside
//	block.go    frames that are read: blocks, and the points in them
//	frame.go    the bytes of a frame
//
// # Segments
//
// A resolution is a sequence of segments, each a file 10s-00000001.hist (or 5m-…), numbered as they are begun. A process appends to
// segments of its own only, which it holds a lock on: of two processes that overlap, while one is replaced, each has its own. A segment
// that is full is written again, compressed, and renamed over itself. What a crash leaves behind is read up to the first frame that is
// not whole; at the next start small segments are merged. The same points may be in two segments for a moment; readers count them once.
//
//	"CinchHis" version:1 form:1 frame*                      form 0, being written
//	"CinchHis" version:1 form:1 length:4 crc32c:4 payload   form 1: length and checksum of the frames, which zstd has compressed
//
// A frame is length:4 crc32c:4 body, both of the body, little endian. A body is one of
//
//	'R' writer:16 start index       a block begins: whose points, milliseconds since 1970, the index before its first point
//	'S' kind:1 name gateway rule    a series, numbered from 0 in the order of these frames in a block; each text is length and bytes
//	'P' index time (gap value)*     a point: how many samples after the one before, milliseconds after it (zigzag), and for each series
//	                                that has changed how many numbers are skipped and by how much (zigzag)
//
// Numbers are varints as encoding/binary has them. Series and values begin anew with each block, which makes blocks independent of each
// other: dropping and merging segments is removing and concatenating.
//
// # Time
//
// A sample has an index, which counts up in a process, and the time of the clock. Only the index orders points, and the bound counts
// points: a clock that jumps neither loses nor doubles anything, it only says another time. Counters are kept as they are, from 0 at
// the start of a process, with the process they are of. So a restart is seen for certain, and increases are added up over processes.
// The coarse points of a process begin a minute after its start, and end with its end, if that is in order.
package history
