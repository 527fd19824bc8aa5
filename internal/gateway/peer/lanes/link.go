package lanes

import (
	"net"

	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// version is the content of the extension in hellos: the version of lanes.
const version = "\x01"

// Extensions returns the extensions of hellos for links with lanes, see [link.Config].
func Extensions() string { return wire.AppendExtension("", wire.Lanes, version) }

// OfLink returns the lanes of a new link, which the caller must Close. It returns nil if c is no link, or if the peer
// does not support this version of lanes.
func OfLink(c net.Conn, s *Shared) *Ends {
	l, ok := c.(interface {
		Memory
		Extension(wire.Extension) (content string, ok bool)
		Share(link.Sharing)
	})
	if !ok || s == nil {
		return nil
	}
	if v, _ := l.Extension(wire.Lanes); v != version {
		return nil
	}
	e := New(l, s)
	l.Share(link.Sharing{Busy: e.Writers.Busy, Forget: e.Writers.Forget, Forgotten: e.Readers.Forget})
	return e
}
