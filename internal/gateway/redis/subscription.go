package redis

// subscribed reports a RESP2 client with subscriptions: the server takes nothing from
// it but commands about them.
func (c *conversation) subscribed() bool {
	if c.st.version.Load() != 2 || !c.subscribing && c.st.channels.Load() == 0 {
		return false
	}
	if !c.settle() { // an answer may be on its way that changes it
		return false
	}
	c.subscribing = false
	return c.st.channels.Load() > 0
}
