package tarantool

import _ "embed"

// Module is cinch.lua: it opens and seals values in the server's own Lua.
//
//go:embed lua/cinch.lua
var Module string
