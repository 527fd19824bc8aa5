package shadow

import "strings"

// order determines which operations must be done at a target before another may be sent there. It is used by
// the mirror's goroutine only.
type order struct {
	all   node
	locks lastOps             // may wait for locks, and so may not be done when operations behind them are
	seen  map[*Operation]bool // added by the current call of enter
}

// node holds the operations on a key since the last one that wrote all of it. When that one is done, so is
// everything before it.
type node struct {
	write      *Operation // the last one that wrote all of it
	reads      lastOps    // those that read all of it
	parts      map[string]*node
	partWrites lastOps // the ones that wrote a part
	partReads  lastOps // the ones that read a part
}

// lastOps holds the last operation of each connection: when it is done at a target, so are those before it.
type lastOps map[uint64]*Operation

func newOrder() *order { return &order{seen: map[*Operation]bool{}} }

// enter adds an operation, and appends to before the operations that it has to wait for. Operations of its
// own connection are left out, since they are sent in their order anyway.
func (o *order) enter(op *Operation, before []*Operation) []*Operation {
	clear(o.seen)
	w := waiting{o, op, before}
	writes := op.Kind != Read
	w.addLocks()
	if op.TouchesAll {
		w.all(&o.all, writes)
		return w.before
	}
	if len(op.Keys)+len(op.Uses) == 0 {
		w.part(&o.all, writes)
	}
	for _, k := range op.Keys {
		w.key(k, writes)
	}
	for _, k := range op.Uses {
		w.key(k, true)
	}
	return w.before
}

// waiting is an operation that is being entered, with the operations that it has to wait for.
type waiting struct {
	*order
	op     *Operation
	before []*Operation
}

// maxParts limits the parts into which a key is split: the rest counts as one part.
const maxParts = 8

// key adds the operations that touch a key, a part of it, or something that it is part of.
func (w *waiting) key(key string, writes bool) {
	n := &w.order.all
	for _, part := range strings.SplitN(key, Part, maxParts) {
		w.part(n, writes)
		n = n.part(part)
	}
	w.all(n, writes)
}

// part adds the operations that touch all of n, where w.op touches only a part of it.
func (w *waiting) part(n *node, writes bool) {
	w.add(n.write)
	if writes {
		w.addLastOps(n.reads)
		n.partWrites.note(w.op)
	} else {
		n.partReads.note(w.op)
	}
}

// all adds the operations that touch a node or a part of it.
func (w *waiting) all(n *node, writes bool) {
	w.add(n.write)
	w.addLastOps(n.partWrites)
	if !writes {
		n.reads.note(w.op)
		return
	}
	w.addLastOps(n.reads)
	w.addLastOps(n.partReads)
	*n = node{write: w.op}
}

// addLocks adds operations that may wait for a lock, since later ones may have been sent without waiting for
// them.
func (w *waiting) addLocks() {
	for conn, earlier := range w.order.locks {
		if earlier.over() {
			delete(w.order.locks, conn)
		} else {
			w.add(earlier)
		}
	}
	if w.op.Locks {
		w.order.locks.note(w.op)
	}
}

func (w *waiting) addLastOps(l lastOps) {
	for _, earlier := range l {
		w.add(earlier)
	}
}

func (w *waiting) add(earlier *Operation) {
	if earlier == nil || earlier.conn == w.op.conn || earlier.over() || w.seen[earlier] {
		return
	}
	w.seen[earlier] = true
	w.before = append(w.before, earlier)
}

func (n *node) part(name string) *node {
	p := n.parts[name]
	if p == nil {
		if n.parts == nil {
			n.parts = map[string]*node{}
		}
		p = &node{}
		n.parts[name] = p
	}
	return p
}

func (l *lastOps) note(op *Operation) {
	if *l == nil {
		*l = lastOps{}
	}
	(*l)[op.conn] = op
}

// over reports whether all targets are done with an operation.
func (op *Operation) over() bool { return op.pendingTargets.Load() == 0 }

// tidy removes operations that are over, so that the order holds little more than operations that are not done.
func (o *order) tidy() { o.all.tidy() }

// tidy removes operations that are over, and reports whether the node is empty.
func (n *node) tidy() (empty bool) {
	if n.write != nil && n.write.over() {
		n.write = nil
	}
	empty = n.write == nil
	for _, l := range []lastOps{n.reads, n.partWrites, n.partReads} {
		for conn, op := range l {
			if op.over() {
				delete(l, conn)
			}
		}
		empty = empty && len(l) == 0
	}
	for name, p := range n.parts {
		if p.tidy() {
			delete(n.parts, name)
		}
	}
	return empty && len(n.parts) == 0
}
