// Package library tests the libraries of all languages against each other and against Go: each opens the
// envelopes of every other, and all refuse the same ones, in bounded memory. It also follows
// docs/operations/DISASTER.md, without a gateway.
//
// Each language has a small program, its worker. It reads one JSON object per line and answers with one,
// until its input ends:
//
//	{"op":"seal","value":BASE64,"level":3,"dictionary":BASE64}  {"value":BASE64}, or {"error":"unsupported"}
//	{"op":"open","value":BASE64,"dictionaries":[BASE64],"max_raw":BYTES}  {"value":BASE64}, or {"error":CLASS}
//
// The classes are "damaged", "dictionary missing", "unknown codec" and "too large". dictionary,
// dictionaries and max_raw are optional.
package library
