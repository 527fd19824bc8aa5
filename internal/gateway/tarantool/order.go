package tarantool

// enter waits until requests may go into a lane, and gives the stamp that they carry there, 0:
// none. Those that can't carry it go alone, when nothing in the lane can be refused: ask sends
// a probe to find out. It reports false when the reply pump has ended.
func (o *outstanding) enter(stream uint64, alone bool, beforeWait, ask func() error) (stamp uint64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	flushed := false
	for {
		l := o.lanes.find(stream)
		switch {
		case o.closed:
			return 0, false
		case l == nil && !o.lanes.full():
			return 0, true
		case l != nil && !l.held && (!alone || l.open == 0):
			return l.current(), true
		case l != nil && !l.held && l.asks(stream):
			if o.unlocked(ask) != nil {
				return 0, false
			}
		case flushed:
			o.moved.Wait()
		default:
			if flushed = true; o.unlocked(beforeWait) != nil {
				return 0, false
			}
		}
	}
}

// begun takes notice that the server has looked at the stamps of all of a lane's requests that were
// sent before one. Those that are unanswered may take long, but can't be refused any more: refusals
// come at once.
func (o *outstanding) begun(stream, sent uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begunLocked(stream, sent)
}

func (o *outstanding) begunLocked(stream, sent uint64) {
	l := o.lanes.find(stream)
	if l == nil {
		return
	}
	l.asked = false
	o.exchanges.change(func(e *exchange) bool {
		if e.stamp == 0 || e.stream != stream || e.sent >= sent {
			return false
		}
		o.originals.drop(e)
		e.stamp = 0
		l.open--
		return true
	})
	o.lanes.tidy(stream)
	o.moved.Broadcast()
}

// stampOf is what a request that is sent again carries.
func (o *outstanding) stampOf(stream uint64) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lanes.find(stream); l != nil {
		return l.current()
	}
	return 0
}

// park keeps a request, and holds its lane. It reports whether nobody sends what is parked there
// yet.
func (o *outstanding) park(sync uint64, e exchange) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		o.originals.drop(&e)
		return false
	}
	o.lanes.place(&e)
	l := o.lanes.of(e.stream)
	if e.sent != 0 && len(l.parked) == 0 { // the first that is refused
		o.begunLocked(e.stream, e.sent)
		l = o.lanes.of(e.stream)
	}
	l.parked = append(l.parked, parked{sync, e})
	first := !l.held
	l.held = true
	o.moved.Broadcast()
	return first
}

// unpark takes what is parked in a lane, in its order, when all that will be is there: the server
// refuses whatever is behind the first with the same stamp. When there is nothing it lets the
// lane go.
func (o *outstanding) unpark(stream uint64) []parked {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes.of(stream)
	for !o.closed && len(l.parked) > 0 && o.moreRefused(l, stream) {
		o.moved.Wait()
	}
	list := l.takeParked()
	if o.closed {
		for i := range list {
			o.originals.drop(&list[i].exchange)
		}
		list = nil
	}
	if list == nil {
		l.held = false
		o.lanes.tidy(stream)
		o.moved.Broadcast()
	}
	return list
}

// moreRefused reports whether a request behind the first that is parked is unanswered and will be
// refused too.
func (o *outstanding) moreRefused(l *lane, stream uint64) bool {
	first := l.first()
	return o.exchanges.any(func(e *exchange) bool {
		return e.stamp != 0 && e.stream == stream && e.stamp == first.stamp && e.order > first.order
	})
}

// putBack returns what unpark gave and could not be sent yet, for the next time.
func (o *outstanding) putBack(stream uint64, list []parked) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes.of(stream)
	l.parked = append(l.parked, list...)
}

// alone waits until nothing in a held lane can be refused; ask sends a probe. It reports false when
// something was refused meanwhile, or the reply pump has ended.
func (o *outstanding) alone(stream uint64, ask func() error) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := o.lanes.of(stream); !o.closed; {
		switch {
		case len(l.parked) > 0:
			return false, nil
		case l.open == 0:
			return true, nil
		case l.asks(stream):
			if err := o.unlocked(ask); err != nil {
				return false, err
			}
		default:
			o.moved.Wait()
		}
	}
	return false, nil
}
