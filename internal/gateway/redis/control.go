package redis

import (
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// control handles the commands that change the conversation itself. What they are about tells them apart.
type control struct {
	loginCommands
	multiCommands
	feedCommands
	nodeCommands
	scriptCommands
	indexCommands

	cfg *Config // the gateway's
}

func (c *control) init(g *Gateway, talk *conversation, user *user, rest handing) {
	c.loginCommands = loginCommands{talk: talk, user: user}
	c.multiCommands = multiCommands{talk: talk, user: user}
	c.feedCommands = feedCommands{talk: talk, rest: rest}
	c.nodeCommands = nodeCommands{talk: talk, user: user, view: g.cfg.view}
	c.scriptCommands = scriptCommands{talk: talk, user: user, vault: g.vault}
	c.indexCommands = indexCommands{talk: talk, user: user, vault: g.vault, indexes: g.indexes}
	c.cfg = &g.cfg
}

// handlers are those of the commands that the table calls controls.
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

// client carries out CLIENT, which is about several of them.
func (c *control) client(r *request) error {
	if resp.IsWord(r.args[1], "capa") {
		return c.capabilities(r)
	}
	return c.loginCommands.client(r)
}

func (c *control) command(r *request) error {
	if c.cfg.NoCommandDocs && len(r.args) > 1 && resp.IsWord(r.args[1], "docs") {
		return c.scriptCommands.talk.refuse("ERR unknown subcommand 'DOCS'")
	}
	return c.scriptCommands.talk.forward(r, entry{})
}

// gateway tells Cinch's commands, which must go to the server itself, that this is a gateway. Where the server asks for a
// login, only clients that have logged in are told what is behind it.
func (c *control) gateway(r *request) error {
	talk := c.scriptCommands.talk
	if talk.tx.open || talk.subscribed() {
		return talk.forward(r, entry{}) // the server refuses it
	}
	behind := c.cfg.Behind
	if talk.isStranger() {
		behind = ""
	}
	return talk.answer(resp.AppendGateway(nil, c.cfg.Name, behind))
}
