// Package library tests the libraries of all languages against each other and against Go: what each seals every other opens, and what
// one refuses all refuse, in bounded memory. And it follows docs/operations/DISASTER.md, without a gateway.
//
// A language takes part by a small program, its worker. It reads a JSON object a line and answers with one, until its input ends:
//
//	{"op":"seal","value":BASE64,"level":3,"dictionary":BASE64}                 {"value":BASE64}, or {"error":"unsupported"}
//	{"op":"open","value":BASE64,"dictionaries":[BASE64],"max_raw":BYTES}       {"value":BASE64}, or {"error":CLASS}
//
// The classes are "damaged", "dictionary missing", "unknown codec" and "too large". dictionary, dictionaries and max_raw may be missing.
package library
