package pack

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
)

// Holder names a gateway, or a run, of this process to those of others, as who holds a lease or
// has trained a dictionary: host/name/random.
func Holder(name string) string {
	host, _ := os.Hostname()
	var random [4]byte
	_, _ = rand.Read(random[:])
	return strings.ToValidUTF8(host, "") + "/" + name + "/" + hex.EncodeToString(random[:])
}
