package redis

import (
	"bytes"
	"slices"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// treatment describes how to mirror a command that can't be sent unchanged.
type treatment struct {
	skip           bool   // not sent to targets: it concerns the server or the login
	unmirrored     string // why its connection is not mirrored any more
	setsState      bool   // it sets the state of the connection
	random         bool   // only its success is compared
	form           uint8
	touchesNothing bool                                      // it touches no data
	chooseForm     func(op *shadow.Operation, args [][]byte) // chooses how it is compared
	rewrite        func(op *shadow.Operation, args [][]byte, reply []byte) (keep bool)
}

// treatments by the command's name. docs/SHADOW.md has a list for users.
var treatments = map[string]treatment{
	// Logins and the connection itself: targets have their own.
	"auth": {skip: true}, "quit": {skip: true}, "client": {skip: true}, "readonly": {skip: true}, "readwrite": {skip: true}, "asking": {skip: true},
	"hello":  {setsState: true, random: true, rewrite: rewriteHello},
	"select": {setsState: true},
	"reset":  {unmirrored: "RESET"},

	// Commands after which replies don't match requests any more.
	"monitor": {unmirrored: "MONITOR"}, "sync": {unmirrored: "replication"}, "psync": {unmirrored: "replication"}, "replconf": {unmirrored: "replication"},
	"subscribe": {unmirrored: "a subscription"}, "psubscribe": {unmirrored: "a subscription"}, "ssubscribe": {unmirrored: "a subscription"},

	// Commands that concern the server.
	"wait": {skip: true}, "waitaof": {skip: true}, "shutdown": {skip: true}, "replicaof": {skip: true}, "slaveof": {skip: true},
	"failover": {skip: true}, "debug": {skip: true}, "config": {skip: true}, "acl": {skip: true}, "cluster": {skip: true}, "module": {skip: true},
	"slowlog": {skip: true}, "latency": {skip: true}, "save": {skip: true}, "bgsave": {skip: true}, "bgrewriteaof": {skip: true}, "lastsave": {skip: true},
	"info": {skip: true}, "role": {skip: true}, "publish": {skip: true}, "spublish": {skip: true}, "pubsub": {skip: true}, "command": {skip: true},
	"memory": {skip: true}, "migrate": {skip: true}, "pfdebug": {skip: true}, "pfselftest": {skip: true},
	"ping": {touchesNothing: true}, "echo": {touchesNothing: true}, "time": {touchesNothing: true, random: true}, "unwatch": {touchesNothing: true}, "discard": {touchesNothing: true},

	// Answers that differ by nature; servers from 7.0 on mark them themselves.
	"randomkey": {random: true, touchesNothing: true}, "srandmember": {random: true}, "hrandfield": {random: true}, "zrandmember": {random: true},
	"scan": {random: true, touchesNothing: true}, "sscan": {random: true}, "hscan": {random: true}, "zscan": {random: true}, "dbsize": {random: true, touchesNothing: true},
	"ttl": {random: true}, "pttl": {random: true}, "expiretime": {random: true}, "pexpiretime": {random: true},
	"object": {random: true}, "dump": {random: true}, "xinfo": {random: true}, "xpending": {random: true}, "lolwut": {skip: true},

	// Answers without an order.
	"smembers": {form: unordered}, "sunion": {form: unordered}, "sinter": {form: unordered}, "sdiff": {form: unordered}, "keys": {form: unordered},
	"sort": {chooseForm: chooseSortForm}, "sort_ro": {chooseForm: chooseSortForm},
	"hkeys": {form: unordered}, "hvals": {form: unordered}, "hgetall": {form: pairs},

	// Answers that may contain a key's time to live.
	"eval": {form: scripted}, "evalsha": {form: scripted}, "fcall": {form: scripted}, "eval_ro": {form: scripted}, "evalsha_ro": {form: scripted}, "fcall_ro": {form: scripted},

	// Results that the server chooses: the targets get production's.
	"spop": {rewrite: rewriteSpop},
	"xadd": {rewrite: rewriteXadd},

	// Blocking commands: if production's returned something, targets get the form that does not block.
	"blpop": {rewrite: popFirst("LPOP")}, "brpop": {rewrite: popFirst("RPOP")},
	"bzpopmin": {rewrite: popFirst("ZPOPMIN")}, "bzpopmax": {rewrite: popFirst("ZPOPMAX")},
	"blmove": {rewrite: withoutLast("LMOVE")}, "brpoplpush": {rewrite: withoutLast("RPOPLPUSH")},
	"blmpop": {rewrite: withoutFirst("LMPOP")}, "bzmpop": {rewrite: withoutFirst("ZMPOP")},
	"xread": {rewrite: withoutBlock}, "xreadgroup": {rewrite: withoutBlock},
}

// chooseSortForm determines whether a SORT leaves the order open: it sorts by nothing, or by texts that may
// be equal.
func chooseSortForm(op *shadow.Operation, args [][]byte) {
	var by []byte
	var alpha, limit bool
	for i := 2; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "by") && i+1 < len(args):
			by = args[i+1]
			i++
		case resp.IsWord(args[i], "get"), resp.IsWord(args[i], "store"):
			i++
		case resp.IsWord(args[i], "limit"):
			limit = true
			i += 2
		case resp.IsWord(args[i], "alpha"):
			alpha = true
		}
	}
	if by == nil || bytes.Contains(by, []byte("*")) && !alpha {
		return
	}
	if op.Form = unordered; limit {
		op.Check = shadow.Success
	}
}

func rewriteHello(op *shadow.Operation, args [][]byte, reply []byte) bool {
	if reply[0] == resp.Error || len(args) < 2 {
		return false
	}
	op.Request = resp.AppendArgs(nil, args[:2]) // without the login
	return true
}

// rewriteSpop has targets remove the members that production has popped.
func rewriteSpop(op *shadow.Operation, args [][]byte, reply []byte) bool {
	members := stringsOf(reply)
	if reply[0] == resp.Error || len(members) == 0 {
		return false
	}
	op.Request = resp.AppendArgs(nil, append([][]byte{[]byte("SREM"), args[1]}, members...))
	return true
}

// rewriteXadd has targets add the entry with production's ID.
func rewriteXadd(op *shadow.Operation, args [][]byte, reply []byte) bool {
	i := xaddID(args)
	id := stringsOf(reply)
	if reply[0] == resp.Error || len(id) != 1 {
		return false
	}
	if i >= len(args) || !bytes.HasSuffix(args[i], []byte("*")) {
		return true
	}
	sent := append([][]byte(nil), args...)
	sent[i] = id[0]
	op.Request = resp.AppendArgs(nil, sent)
	return true
}

// xaddID returns the index of the entry's ID: XADD key [options] id field value.
func xaddID(args [][]byte) int {
	for i := 2; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "nomkstream"), resp.IsWord(args[i], "keepref"), resp.IsWord(args[i], "delref"), resp.IsWord(args[i], "acked"):
		case resp.IsWord(args[i], "limit"):
			i++
		case resp.IsWord(args[i], "maxlen"), resp.IsWord(args[i], "minid"):
			i++
			if i < len(args) && (string(args[i]) == "=" || string(args[i]) == "~") {
				i++
			}
		default:
			return i
		}
	}
	return len(args)
}

// popFirst sends command for the key that production has popped from, which is the first string of its
// answer.
func popFirst(command string) func(*shadow.Operation, [][]byte, []byte) bool {
	return func(op *shadow.Operation, _ [][]byte, reply []byte) bool {
		popped := stringsOf(reply)
		if len(popped) < 2 {
			return false
		}
		return unblocked(op, [][]byte{[]byte(command), popped[0]}, reply)
	}
}

func withoutLast(command string) func(*shadow.Operation, [][]byte, []byte) bool {
	return func(op *shadow.Operation, args [][]byte, reply []byte) bool {
		return unblocked(op, append([][]byte{[]byte(command)}, args[1:len(args)-1]...), reply)
	}
}

func withoutFirst(command string) func(*shadow.Operation, [][]byte, []byte) bool {
	return func(op *shadow.Operation, args [][]byte, reply []byte) bool {
		return len(args) > 2 && unblocked(op, append([][]byte{[]byte(command)}, args[2:]...), reply)
	}
}

func withoutBlock(op *shadow.Operation, args [][]byte, reply []byte) bool {
	for i := 1; i+1 < len(args) && !resp.IsWord(args[i], "streams"); i++ {
		if resp.IsWord(args[i], "block") {
			return unblocked(op, slices.Concat(args[:i], args[i+2:]), reply)
		}
	}
	return true
}

// unblocked sends args instead, unless production's command found nothing, or failed.
func unblocked(op *shadow.Operation, args [][]byte, reply []byte) bool {
	if h, _ := head(reply); h.IsNull() || h.Kind == resp.Error {
		return false
	}
	op.Request, op.WasBlocked = resp.AppendArgs(nil, args), true
	return true
}
