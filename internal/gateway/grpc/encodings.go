package grpc

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
)

// identity is how headers name the lack of an encoding; here it is "".
const identity = "identity"

// ownNames are the encodings that we read and write.
var ownNames = grpccodec.Names()

// canOpen reports whether we can read messages of that encoding.
func canOpen(encoding string) bool { return slices.Contains(ownNames, encoding) }

// canonical turns the value of grpc-encoding into what we use.
func canonical(encoding string) string {
	if encoding == identity {
		return ""
	}
	return encoding
}

// splitList reads the values of grpc-accept-encoding.
func splitList(values []string) []string {
	var names []string
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// encodingOf returns the encoding's name of a setting, "" for raw.
func encodingOf(s codec.Setting) string {
	if s.Codec == codec.Raw {
		return ""
	}
	return s.Codec.String()
}

// unlaned is the encoding that a call has beside lanes, in which messages of Protocol Buffers go that find none.
func unlaned(encoding string) string {
	if encoding == lanes.Encoding {
		return codec.Proto.String()
	}
	return encoding
}

// toLanes is the encoding for a call that has lanes, where a rule wants another one.
func toLanes(encoding string) string {
	if encoding == codec.Proto.String() {
		return lanes.Encoding
	}
	return encoding
}

// setList writes grpc-accept-encoding.
func setList(h http.Header, list []string) {
	if len(list) == 0 {
		delete(h, "Grpc-Accept-Encoding")
		return
	}
	h["Grpc-Accept-Encoding"] = []string{strings.Join(list, ",")}
}
