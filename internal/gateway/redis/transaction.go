package redis

import (
	"bytes"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// transaction is what the request pump knows of the client's MULTI.
type transaction struct {
	multi   *multiAnswer     // set while it is open
	account *gateway.Account // takes bytes
	known   []lua.Known      // values sealed for SETs that are queued: a later command in the same transaction may need them back
	bytes   int              // of them, held of the budget
	entries int              // bytes of what is queued for EXEC
	queued  int              // of the budget, for that
	space   *string          // selected in the transaction
	open    bool
	changes bool // EXEC changes what the next request depends on
	login   bool // as whom the client is logged in, too
	asking  bool // ASKING came before it, and holds for all of it
	brings  bool // something that is queued may bring a sealed value to any key

	watch watching
}

// multiAnswer is what the server has said to MULTI, in the reply pump.
type multiAnswer struct {
	came    atomic.Bool
	refused atomic.Bool // there is no transaction after all
}

func (m *multiAnswer) take(a answer) {
	m.refused.Store(a.isError())
	m.came.Store(true)
}

// answersAtOnce reports that the server queues whatever comes now: what it may have been blocked on, in front of
// MULTI, is over.
func (t *transaction) answersAtOnce() bool {
	return t.open && t.multi.came.Load() && !t.multi.refused.Load()
}

// maxTransactionBytes bounds what the replies to one transaction take in memory here.
const maxTransactionBytes = 16 << 20

// maxRemembered bounds, in bytes, what is kept of a transaction. Beyond it a command that
// computes on a value set earlier in the same transaction answers with an error.
const maxRemembered = 1 << 20

// endsTransaction has the commands after which nothing is queued any more. No bound refuses them.
var endsTransaction = map[string]bool{"exec": true, "discard": true, "reset": true, "quit": true}

func (t *transaction) remember(sealed, value []byte) {
	n := len(sealed) + len(value)
	if t.bytes+n > maxRemembered || !t.account.TryAcquire(int64(n)) {
		return
	}
	t.bytes += n
	t.known = append(t.known, lua.Known{Sealed: bytes.Clone(sealed), Value: bytes.Clone(value)})
}

// fits takes memory for what is queued for EXEC, but for the first bytes. It reports whether there was some.
func (t *transaction) fits() bool {
	for t.entries > freeQueueBytes+t.queued {
		if !t.account.TryAcquire(queuePieceBytes) {
			return false
		}
		t.queued += queuePieceBytes
	}
	return true
}

// end ends MULTI, and with it WATCH.
func (t *transaction) end() {
	if t.open && !t.multi.refused.Load() {
		t.endWatch()
	}
	t.account.Release(int64(t.bytes + t.queued))
	*t = transaction{account: t.account, watch: t.watch}
}

func (t *transaction) endWatch() { t.watch = watching{} }
