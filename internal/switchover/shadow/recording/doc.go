// Package recording reads and writes files of traffic: the pieces that passed between clients and a server,
// with their times. It is independent of protocols.
//
// # Format
//
// Whole numbers are unsigned varints as encoding/binary has them, unless a size is given.
//
//	file    magic "cinchrec" | version 1 byte = 1 | protocol, 1 byte of length and the bytes
//	        start, 8 bytes, nanoseconds since 1970, big-endian | record ...
//	record  kind 1 byte | connection | time | length | the bytes
//
//	kind    bytes
//	1       from the client
//	2       from the server
//	3       none: the connection has ended
//	4       none: from some point before this record on, the connection is not recorded
//	5       why the recording ended, in words; the last record of a complete file
//
// Connections are numbered in the order of their arrival. time is in nanoseconds since the previous record,
// for the first one since start. Records are in the order of their arrival; a time before the previous
// record's is written as 0. length is 1 MiB at most, and checked before anything is allocated. Readers refuse
// unknown versions and kinds.
//
// A file that was cut off at any byte is read up to the last complete record. Then Next returns ErrTruncated.
//
// # At rest
//
// The bytes above are the content of a file that age can decrypt (https://age-encryption.org/v1), unless the
// recording was made without encryption. age encrypts 64 KiB at a time: in a file that was cut off, the
// content of the incomplete chunk is lost.
//
// Reading order: file.go (files, with encryption), writer.go, reader.go, format.go.
package recording
