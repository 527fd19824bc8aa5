package serve

import (
	"io"
	"net"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/handover"
)

// Options say what to serve, and hand over what the binary was built with.
type Options struct {
	Load func() (*config.Config, error) // reads the configuration: at the start, and for each Reload
	Log  io.Writer
	Zstd Zstd

	Version, Revision string // of the program

	Sockets *handover.Sockets // that the process was given; nil: none

	PProf bool // profiles on the admin page
	Force bool // for tests: every policy gets Force
	Toy   bool // the store is the embedded one

	listen func(address string) (net.Listener, error) // for tests, in place of Sockets; or nil
}

// Zstd is what there is of zstd's implementations.
type Zstd struct {
	Engine func(name string) (*codec.Engine, error) // by the configuration's name
	Native func() codec.ZstdCoder                   // libzstd; nil where it was not built in
	Train  dict.Trainer                             // libzstd's; or nil
}

// native reports that an engine works with libzstd.
func native(e *codec.Engine) bool { return e.ZstdName() == "libzstd" }
