package shadow

// order knows which operations have to be done at a target before another may be sent there.
// It belongs to the mirror's goroutine.
type order struct {
	keys map[string]*touched
	last map[uint64]*Operation // of each connection
	all  *Operation            // the last one that touches everything
	seen map[*Operation]bool   // within a call of enter
}

// touched is who uses a key.
type touched struct {
	write *Operation
	reads []*Operation // since then
}

func newOrder() *order {
	return &order{keys: map[string]*touched{}, last: map[uint64]*Operation{}, seen: map[*Operation]bool{}}
}

// enter notes an operation, and appends to before what it has to wait for. Operations of its own
// connection are not among that, since those are sent in their order anyway.
func (o *order) enter(op *Operation, before []*Operation) []*Operation {
	clear(o.seen)
	if op.Whole {
		before = o.enterWhole(op, before)
	} else {
		before = o.add(before, op, o.all)
		for _, k := range op.Keys {
			before = o.enterKey(op, k, before)
		}
	}
	o.last[op.conn] = op
	return before
}

// enterWhole waits for the last operation of every connection: those before are done by then.
func (o *order) enterWhole(op *Operation, before []*Operation) []*Operation {
	for conn, last := range o.last {
		if last.over() {
			delete(o.last, conn)
		} else {
			before = o.add(before, op, last)
		}
	}
	clear(o.keys)
	o.all = op
	return before
}

func (o *order) enterKey(op *Operation, key string, before []*Operation) []*Operation {
	t := o.keys[key]
	if t == nil {
		t = &touched{}
		o.keys[key] = t
	}
	before = o.add(before, op, t.write)
	if op.Kind == Read {
		t.reads = append(t.reads, op)
		return before
	}
	for _, r := range t.reads {
		before = o.add(before, op, r)
	}
	t.write, t.reads = op, nil
	return before
}

func (o *order) add(before []*Operation, op, earlier *Operation) []*Operation {
	if earlier == nil || earlier.conn == op.conn || earlier.over() || o.seen[earlier] {
		return before
	}
	o.seen[earlier] = true
	return append(before, earlier)
}

// over reports whether all targets are done with an operation.
func (op *Operation) over() bool { return op.left.Load() == 0 }

// end forgets a connection.
func (o *order) end(conn uint64) {
	if last := o.last[conn]; last != nil && last.over() {
		delete(o.last, conn)
	}
}

// tidy forgets what is over, so that the order is as large as what is under way.
func (o *order) tidy() {
	for k, t := range o.keys {
		reads := t.reads[:0]
		for _, r := range t.reads {
			if !r.over() {
				reads = append(reads, r)
			}
		}
		clear(t.reads[len(reads):])
		t.reads = reads
		if t.write != nil && t.write.over() {
			t.write = nil
		}
		if t.write == nil && len(reads) == 0 {
			delete(o.keys, k)
		}
	}
	for conn, last := range o.last {
		if last.over() {
			delete(o.last, conn)
		}
	}
}
