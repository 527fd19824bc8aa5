package tarantool

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/test/testenv"
)

// vshardLua sets up the part of a vshard storage that cinch_shards reads.
const vshardLua = `local function set(id, master, ...)
		local replicas = {}
		for _, uri in ipairs{...} do replicas[uri] = {uri = uri} end
		return {id = id, uuid = id, master = replicas[master], replicas = replicas}
	end
	local sets = {
		bbb = set('bbb', 'storage:secret@two:3302', 'storage:secret@two:3302', 'storage:secret@another:3303'),
		aaa = set('aaa', 'storage:secret@one:3301', 'storage:secret@one:3301'),
		ccc = set('ccc', nil, 'storage:secret@z:1', 'y:1', 'unix/:/run/t.sock'),
	}
	package.loaded['vshard.storage'] = {internal = {this_replicaset = sets.aaa, replicasets = sets}}`

// Functions of another version may return another number of values.
func TestAnswersOfOtherVersions(t *testing.T) {
	for _, into := range []any{new(scanResult), new(shardList)} {
		err := msgpack.Unmarshal([]byte{0x92, 0xc0, 0xc0}, into)
		if !errors.Is(err, ErrNoInit) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%T: %v", into, err)
		}
	}
}

func TestAskShards(t *testing.T) {
	for _, p := range testenv.TarantoolPrograms(t) {
		t.Run(p.Name, func(t *testing.T) {
			server := testenv.TarantoolOf(t, p.Path, "box.schema.user.create('app', {password = 'secret', if_not_exists = true}) box.schema.user.create('other', {password = 'secret', if_not_exists = true})")
			admin := mustConnect(t, server.Addr, "", "")
			install(t, admin, InstallOptions{Users: []string{"app"}})
			c := mustConnect(t, server.Addr, "app", "secret")
			if got, err := QueryShards(t.Context(), c); err != nil || len(got) != 0 {
				t.Errorf("without vshard: %v, %v", got, err)
			}
			lua(t, admin, "box.schema.space.create('_bucket')")
			if got, err := QueryShards(t.Context(), c); !errors.Is(err, ErrShards) {
				t.Errorf("before vshard is configured: %v, %v", got, err)
			}
			lua(t, admin, vshardLua)
			got, err := QueryShards(t.Context(), c)
			want := "[{aaa true [one:3301]} {bbb false [two:3302 another:3303]} {ccc false [unix:/run/t.sock y:1 z:1]}]"
			if fmt.Sprint(got) != want || err != nil {
				t.Errorf("of a storage: %v, %v", got, err)
			}
			lua(t, admin, "local s = package.loaded['vshard.storage'] package.loaded['vshard.storage'] = nil package.loaded['vshard.router'] = {internal = {routers = {static = {replicasets = s.internal.replicasets}}}}")
			if got, err := QueryShards(t.Context(), c); err != nil || len(got) != 3 || got[0].Own {
				t.Errorf("of a router: %v, %v", got, err)
			}
			if _, err := QueryShards(t.Context(), mustConnect(t, server.Addr, "other", "secret")); !errors.Is(err, ErrDenied) {
				t.Errorf("another user asks: %v", err)
			}
		})
	}
}
