package tarantool

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/tarantool/go-iproto"

	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// The stored functions, for users that may not send code. The source of each is a file in lua/. Those that need the
// helpers in prelude.lua are installed with them, see functions.
//
//go:embed lua/prelude.lua
var luaPrelude string

var (
	//go:embed lua/replace.lua
	luaReplace string
	//go:embed lua/update.lua
	luaUpdate string
	//go:embed lua/scan.lua
	luaScan string
	//go:embed lua/get.lua
	luaGet string
	//go:embed lua/status.lua
	luaStatus string
	//go:embed lua/dictionaries.lua
	luaDictionaries string
	//go:embed lua/dictionary_put.lua
	luaPut string
	//go:embed lua/dictionary_state.lua
	luaState string
	//go:embed lua/record.lua
	luaRecord string
	//go:embed lua/shards.lua
	luaShards string
	//go:embed lua/install.lua
	luaInstall string
)

// The stored functions, besides schema.UpdateFunction. It and the first five run with their caller's rights, the
// others with their owner's, since their callers may not write to the spaces that they change.
const (
	ReplaceFunction = "cinch_replace"
	scanFunction    = "cinch_scan"
	getFunction     = "cinch_get"
	statusFunction  = "cinch_status"
	dictsFunction   = "cinch_dictionaries"
	putFunction     = "cinch_dictionary_put"
	stateFunction   = "cinch_dictionary_state"
	recordFunction  = "cinch_record"
	shardsFunction  = "cinch_shards"
)

// recordSpace is the space that holds records that gateways share: [name, version, text].
const recordSpace = "cinch_records"

// functions returns the arguments of the installing script: name, body, setuid.
func functions() [][]any {
	body := func(texts ...string) string {
		all := ""
		for _, t := range texts {
			all += t + "\n"
		}
		return "function(...)\n" + all + "end" // helpers defined outside would not see the server's globals
	}
	return [][]any{
		{ReplaceFunction, body(luaPrelude, luaReplace), false},
		{schema.UpdateFunction, body(luaUpdate), false},
		{scanFunction, body(luaPrelude, luaScan), false},
		{getFunction, body(luaPrelude, luaGet), false},
		{statusFunction, body(luaPrelude, luaStatus), false},
		{dictsFunction, body(luaDictionaries), false},
		{putFunction, body(luaPut), true},
		{stateFunction, body(luaState), true},
		{recordFunction, body(luaRecord), true},
		{shardsFunction, body(luaShards), true},
	}
}

// InstallOptions configure Install.
type InstallOptions struct {
	Users  []string // users or roles that may read and add dictionaries, besides administrators
	DryRun bool     // only report
	Remove bool     // uninstall; dictionaries stay
}

// Install adds to the server those of Cinch's spaces and functions that are missing or old, and returns what
// it did. It needs an administrator's rights, and a master.
func Install(ctx context.Context, c *Conn, o InstallOptions) ([]string, error) {
	if o.Users == nil {
		o.Users = []string{}
	}
	var did [][]string
	err := c.eval(ctx, luaInstall, []any{o.Users, functions(), o.DryRun, o.Remove}, &did)
	switch {
	case isCode(err, iproto.ER_PROC_LUA):
		return nil, fmt.Errorf("install: %w", err)
	case err != nil:
		return nil, err
	case len(did) != 1:
		return nil, fmt.Errorf("install: the server returned %d values", len(did))
	}
	return did[0], nil
}
