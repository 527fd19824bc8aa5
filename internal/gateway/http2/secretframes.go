package http2

import (
	"bytes"
	"net"

	xhttp2 "golang.org/x/net/http2"
)

// SecretConn is a connection that compresses with a history. WriteSecret writes bytes that do not enter the history.
type SecretConn interface {
	net.Conn
	WriteSecret(p []byte) (int, error)
}

// LinkFrame is the MaxFrame for connections over a link, in bytes: a frame with its header then fills a whole piece of
// the link. Headers within a piece would interrupt repetitions in the data.
const LinkFrame = 64<<10 - frameHeaderLen

// KeepSecrets returns a connection for a Server or a ClientConn that keeps header blocks, and bodies that are marked
// (MarkBody), out of the history of c: otherwise an attacker who can make requests and see the sizes of what is sent
// could guess their content.
func KeepSecrets(c SecretConn) net.Conn { return secretFrames{c} }

// secretFrames separates the secret frames from the others in the output of a Server or a ClientConn, which write
// whole frames only.
type secretFrames struct{ SecretConn }

// NetConn returns the connection that the frames are written to.
func (c secretFrames) NetConn() net.Conn { return c.SecretConn }

// Write writes frames, and the preface of clients.
func (c secretFrames) Write(p []byte) (n int, err error) {
	end := 0
	if bytes.HasPrefix(p, []byte(xhttp2.ClientPreface)) { // no frame begins like this: its length would be too large
		end = len(xhttp2.ClientPreface)
	}
	for n < len(p) {
		secret := false
		for end < len(p) {
			next, isSecret := nextFrame(p[end:])
			if n < end && isSecret != secret {
				break
			}
			secret = isSecret
			end += next
		}
		write := c.SecretConn.Write
		if secret {
			write = c.WriteSecret
		}
		written, err := write(p[n:end])
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}

// nextFrame returns the length of the frame at the beginning of b, and whether it is secret. Bytes that are not a
// whole frame count as a secret one. It clears the mark.
func nextFrame(b []byte) (n int, secret bool) {
	if len(b) < frameHeaderLen {
		return len(b), true
	}
	n = frameHeaderLen + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if n > len(b) {
		return len(b), true
	}
	switch xhttp2.FrameType(b[3]) {
	case xhttp2.FrameHeaders, xhttp2.FramePushPromise, xhttp2.FrameContinuation:
		return n, true
	case xhttp2.FrameData:
		secret = xhttp2.Flags(b[4]).Has(flagMarked)
		b[4] &^= byte(flagMarked)
	}
	return n, secret
}
