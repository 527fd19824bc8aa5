package tarantool

import (
	"fmt"
	"testing"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The admin page shows the progress of a training, and the dictionary that it makes.
func TestTrainingIsShown(t *testing.T) {
	server := testenv.Tarantool(t, `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
		s:create_index('pk', {if_not_exists = true})
		box.schema.user.create('cinch', {password = 'secret', if_not_exists = true})
		box.schema.user.grant('cinch', 'read,write', 'space', 'docs', {if_not_exists = true})
		box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})`)
	cinchCommand(t, 0, "tarantool", "init", "tarantool://"+server.Addr, "--user", "cinch")
	g := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "tarantool", Upstream: "tarantool://cinch:secret@" + server.Addr, Process: testenv.SlowTraining,
		Rules: "- {name: docs, space: docs, field: body, setting: zstd-3, dictionary: auto}",
	})
	c := tntConnect(t, g.Addr)
	n := uint(0)
	feed := func() {
		for range 100 {
			n++
			if _, err := c.Do(tnt.NewReplaceRequest("docs").Tuple([]any{n, fmt.Sprint(testenv.Reading(int(n)))})).Get(); err != nil {
				t.Fatal(err)
			}
		}
	}
	testenv.TrainsVisibly(t, g, feed)
	testenv.HasDictionary(t, g)
}
