package redis

import "github.com/cinch-layer/cinch/internal/wire/resp"

// control handles commands that change the state of the connection, with one type for each subject.
type control struct {
	loginCommands
	multiCommands
	feedCommands
	nodeCommands
	scriptCommands
	indexCommands

	cfg *Config // the gateway's
}

func (c *control) init(g *Gateway, upstream *upstreamWriter, user *user, relay relayer) {
	c.loginCommands = loginCommands{upstream: upstream, user: user}
	c.multiCommands = multiCommands{upstream: upstream, user: user}
	c.feedCommands = feedCommands{upstream: upstream, relay: relay}
	c.nodeCommands = nodeCommands{upstream: upstream, user: user, view: g.cfg.view}
	c.scriptCommands = scriptCommands{upstream: upstream, user: user, codec: g.codec}
	c.indexCommands = indexCommands{upstream: upstream, user: user, codec: g.codec, indexes: g.indexes}
	c.cfg = &g.cfg
}

// handlers are the methods for the commands with the strategy controls.
var handlers = map[string]func(*control, *request) error{
	"auth": (*control).auth, "hello": (*control).hello, "select": (*control).selectDB, "client": (*control).client,
	"quit": (*control).quit, "reset": (*control).reset,
	"multi": (*control).multi, "exec": (*control).exec, "discard": (*control).discard,
	"watch": (*control).watch, "unwatch": (*control).unwatch,
	"subscribe": (*control).subscribe, "psubscribe": (*control).subscribe, "ssubscribe": (*control).subscribe,
	"unsubscribe": (*control).unsubscribe, "punsubscribe": (*control).unsubscribe, "sunsubscribe": (*control).unsubscribe,
	"monitor": (*control).monitor, "replconf": (*control).replconf, "sync": (*control).replicate, "psync": (*control).replicate,
	"flushall": (*control).flush, "flushdb": (*control).flush, "function": (*control).flush, "script": (*control).script,
	"asking": (*control).asking, "readonly": (*control).readOnly, "readwrite": (*control).readOnly,
	"cluster": (*control).clusterCommand, "sentinel": (*control).sentinelCommand, "command": (*control).command,
	"ft.create": (*control).createIndex, "ft._createifnx": (*control).createIndex,
	"ft.dropindex": (*control).changeIndexes, "ft._dropindexifx": (*control).changeIndexes,
	"ft.drop": (*control).changeIndexes, "ft._dropifx": (*control).changeIndexes, "module": (*control).changeIndexes,
	resp.GatewayCommand: (*control).gateway,
}

func (c *control) handle(r *request) error { return handlers[r.cmd.name](c, r) }

// client handles CLIENT, whose subcommands belong to two subjects.
func (c *control) client(r *request) error {
	if resp.IsWord(r.args[1], "capa") {
		return c.capabilities(r)
	}
	return c.loginCommands.client(r)
}

func (c *control) command(r *request) error {
	if c.cfg.NoCommandDocs && len(r.args) > 1 && resp.IsWord(r.args[1], "docs") {
		return c.scriptCommands.upstream.refuse("ERR unknown subcommand 'DOCS'")
	}
	return c.scriptCommands.upstream.forward(r, entry{})
}

// gateway answers the command by which Cinch's commands detect a gateway: they must connect to the server
// itself. If the server requires a login, only clients that have logged in are told its URL.
func (c *control) gateway(r *request) error {
	upstream := c.scriptCommands.upstream
	if upstream.tx.open || upstream.isSubscriber() {
		return upstream.forward(r, entry{}) // the server refuses it
	}
	behind := c.cfg.UpstreamURL
	if upstream.isUnauthenticated() {
		behind = ""
	}
	return upstream.replyWith(resp.AppendGateway(nil, c.cfg.Name, behind))
}
