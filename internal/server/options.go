package server

import (
	"io"
	"net"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/server/upgrade"
)

// Options configures a Process, and passes on what the binary was built with.
type Options struct {
	Load func() (*config.Config, error) // reads the configuration, at the start and on each Reload
	Log  io.Writer
	Zstd Zstd

	Version, Revision string // of the program

	Sockets *upgrade.Sockets // sockets given to the process; nil: none

	PProf    bool // serve profiles on the admin page
	Force    bool // for tests: every policy gets Force
	Shared   bool // for tests: clients of gateways to Redis share connections from the first one on
	Embedded bool // the store is the embedded one

	// For tests.
	listen      func(address string) (net.Listener, error) // replaces Sockets; nil: Sockets
	whatIfCores float64                                    // cores for measuring other settings; 0: simulate.DefaultCores
}

// Zstd holds the zstd implementations that the binary has.
type Zstd struct {
	Engine func(name string) (*codec.Engine, error) // name is as in the configuration
	Native func() codec.ZstdCoder                   // libzstd; nil if it was not built in
	Train  dict.Trainer                             // libzstd's; nil if it was not built in
}

// usesLibzstd reports whether an engine uses libzstd.
func usesLibzstd(e *codec.Engine) bool { return e.ZstdName() == "libzstd" }
