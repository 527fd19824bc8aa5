package redis

// subscription is what the request pump knows of the client's subscriptions.
type subscription struct {
	talk *conversation
	st   *standing
	sent bool // one was, whose answer may not have come
}

// active reports a RESP2 client with subscriptions: the server takes nothing from
// it but commands about them.
func (b *subscription) active() bool {
	if b.st.version.Load() != 2 || !b.sent && b.st.channels.Load() == 0 {
		return false
	}
	if !b.talk.settle() { // an answer may be on its way that changes it
		return false
	}
	b.sent = false
	return b.st.channels.Load() > 0
}
