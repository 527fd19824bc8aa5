package grpc

import (
	"slices"
	"strings"
)

// saysNotInstalled reports whether a response of nothing but a status means that the
// server does not know the encoding. The call is sent again then, so an application's own
// error that speaks of compression must not be taken for it: only the very words of
// implementations count.
func saysNotInstalled(code, message, encoding string) bool {
	message = strings.TrimPrefix(strings.ToLower(message), "grpc: ")
	says := func(beginnings ...string) bool {
		return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(message, b) })
	}
	switch code {
	case "12", "13": // INTERNAL in older versions
		if says(`decompressor is not installed for grpc-encoding "`+encoding+`"`, "can't find decompressor for "+encoding) { // Go, Java
			return true
		}
	default:
		return false
	}
	if code == "13" {
		return message == "error parsing 'grpc-encoding' metadata" // newer C
	}
	return says(
		`received message compressed with unsupported encoding "`+encoding+`"`, // Node
		"unsupported grpc-encoding value '"+encoding+"'",                       // .NET
		"content is compressed with `"+encoding+"` which",                      // Rust
		"compression algorithm '"+encoding+"' is disabled",                     // C
		"invalid compression algorithm value",                                  // older C
		`unknown compression "`+encoding+`"`,                                   // connect
		"cinch: unknown grpc-encoding "+encoding,                               // a gateway without peers
	)
}

// seemsToRefuse is for calls of the gateway's own, which nobody has executed: what speaks of an encoding, and names it, refuses it.
func seemsToRefuse(code, message, encoding string) bool {
	if saysNotInstalled(code, message, encoding) {
		return true
	}
	message = strings.ToLower(message)
	return (code == "12" || code == "13") && strings.Contains(message, encoding) &&
		(strings.Contains(message, "compress") || strings.Contains(message, "encoding"))
}
