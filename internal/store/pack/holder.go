package pack

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
)

// UniqueHolder returns a unique name for a gateway or run of this process, as the holder of a lease or the trainer
// of a dictionary: host/name/random.
func UniqueHolder(name string) string {
	host, _ := os.Hostname()
	var random [4]byte
	_, _ = rand.Read(random[:])
	return strings.ToValidUTF8(host, "") + "/" + name + "/" + hex.EncodeToString(random[:])
}
