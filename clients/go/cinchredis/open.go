package cinchredis

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
)

// open opens the values of a command's reply. If one can't be opened, the command gets an error and no reply, so that
// no caller mistakes an envelope for a value. Replies of types that reply and entries don't list hold no values.
func (h *hook) open(cmd redis.Cmder) error {
	switch c := cmd.(type) {
	case *redis.IntCmd, *redis.BoolCmd, *redis.FloatCmd:
		return nil
	case *redis.StringCmd:
		if !envelope.IsSealed(bytesOf(c.Val())) {
			return nil
		}
	case *redis.StatusCmd:
		if !envelope.IsSealed(bytesOf(c.Val())) {
			return nil
		}
	}
	o := opening{sealer: h.sealer}
	o.reply(cmd)
	if o.err != nil {
		return notOpened(cmd, o.err)
	}
	return nil
}

func (o *opening) reply(cmd redis.Cmder) {
	switch c := cmd.(type) {
	case *redis.StringCmd:
		c.SetVal(o.text(c.Val()))
	case *redis.StatusCmd: // SET with GET
		c.SetVal(o.text(c.Val()))
	case *redis.Cmd:
		keep(o, c.Val(), o.any, c.SetVal)
	case *redis.ZeroCopyStringCmd:
		o.buffer(c)
	case *redis.SliceCmd:
		keep(o, c.Val(), o.slice, c.SetVal)
	case *redis.StringSliceCmd:
		keep(o, c.Val(), o.texts, c.SetVal)
	case *redis.StringSliceSliceCmd:
		keep(o, c.Val(), each(o.texts), c.SetVal)
	case *redis.MapStringStringCmd:
		keep(o, c.Val(), o.fields, c.SetVal)
	case *redis.ScanCmd: // HSCAN
		page, cursor := c.Val()
		keep(o, page, o.texts, func(page []string) { c.SetVal(page, cursor) })
	case *redis.KeyValueSliceCmd: // HRANDFIELD WITHVALUES
		keep(o, c.Val(), each(o.pair), c.SetVal)
	default:
		o.entries(cmd)
	}
}

// entries opens replies of streams, and of searches over hashes.
func (o *opening) entries(cmd redis.Cmder) {
	switch c := cmd.(type) {
	case *redis.XMessageSliceCmd:
		keep(o, c.Val(), each(o.entry), c.SetVal)
	case *redis.XStreamSliceCmd:
		keep(o, c.Val(), each(o.stream), c.SetVal)
	case *redis.XAutoClaimCmd:
		entries, start := c.Val()
		keep(o, entries, each(o.entry), func(entries []redis.XMessage) { c.SetVal(entries, start) })
	case *redis.XAutoClaimWithDeletedCmd:
		entries, start, deleted := c.Val()
		keep(o, entries, each(o.entry), func(entries []redis.XMessage) { c.SetVal(entries, start, deleted) })
	case *redis.XInfoStreamCmd:
		keep(o, c.Val(), o.info, c.SetVal)
	case *redis.XInfoStreamFullCmd:
		keep(o, c.Val(), o.fullInfo, c.SetVal)
	case *redis.FTSearchCmd:
		keep(o, c.Val(), o.search, c.SetVal)
	case *redis.AggregateCmd:
		keep(o, c.Val(), o.aggregate, c.SetVal)
	case *redis.MapStringInterfaceCmd:
		keep(o, c.Val(), o.object, c.SetVal)
	case *redis.MapStringStringSliceCmd:
		keep(o, c.Val(), each(o.fields), c.SetVal)
	case *redis.MapStringInterfaceSliceCmd:
		keep(o, c.Val(), each(o.object), c.SetVal)
	}
}

// keep sets the opened reply if it changed, or an empty one if opening failed.
func keep[T any](o *opening, reply T, open func(T) T, set func(T)) {
	if reply = open(reply); o.err == nil && !o.changed {
		return
	}
	if o.err != nil {
		var none T
		reply = none
	}
	set(reply)
}

// each returns a function that opens the elements of a slice.
func each[T any](open func(T) T) func([]T) []T {
	return func(all []T) []T {
		for i := range all {
			all[i] = open(all[i])
		}
		return all
	}
}

// An opening opens sealed values in a reply, in place where possible. It keeps the first error.
type opening struct {
	sealer  *envelope.Sealer
	changed bool
	err     error
}

func (o *opening) text(s string) string {
	if o.err != nil || !envelope.IsSealed(bytesOf(s)) {
		return s
	}
	out, err := o.sealer.Open(nil, bytesOf(s))
	if err != nil {
		o.err = err
		return ""
	}
	o.changed = true
	return stringOf(out)
}

func (o *opening) texts(all []string) []string { return each(o.text)(all) }

func (o *opening) slice(all []any) []any { return each(o.any)(all) }

func (o *opening) fields(m map[string]string) map[string]string {
	for k, v := range m {
		if envelope.IsSealed(bytesOf(v)) {
			m[k] = o.text(v)
		}
	}
	return m
}

func (o *opening) object(m map[string]any) map[string]any {
	for k, v := range m {
		m[k] = o.any(v)
	}
	return m
}

// any opens an element of a reply whose type depends on the server.
func (o *opening) any(v any) any {
	switch x := v.(type) {
	case string:
		if envelope.IsSealed(bytesOf(x)) {
			return o.text(x)
		}
	case []any:
		o.slice(x)
	case map[string]any:
		o.object(x)
	case map[any]any:
		for k, element := range x {
			x[k] = o.any(element)
		}
	}
	return v
}

func (o *opening) pair(p redis.KeyValue) redis.KeyValue {
	p.Value = o.text(p.Value)
	return p
}

func (o *opening) entry(m redis.XMessage) redis.XMessage {
	o.object(m.Values)
	return m
}

func (o *opening) stream(s redis.XStream) redis.XStream {
	each(o.entry)(s.Messages)
	return s
}

func (o *opening) info(i *redis.XInfoStream) *redis.XInfoStream {
	if i != nil {
		o.entry(i.FirstEntry)
		o.entry(i.LastEntry)
	}
	return i
}

func (o *opening) fullInfo(i *redis.XInfoStreamFull) *redis.XInfoStreamFull {
	if i != nil {
		each(o.entry)(i.Entries)
	}
	return i
}

func (o *opening) search(r redis.FTSearchResult) redis.FTSearchResult {
	for i := range r.Docs {
		o.fields(r.Docs[i].Fields)
	}
	return r
}

func (o *opening) aggregate(r *redis.FTAggregateResult) *redis.FTAggregateResult {
	if r != nil {
		for i := range r.Rows {
			o.object(r.Rows[i].Fields)
		}
	}
	return r
}

// buffer opens a value in the caller's buffer. It fails if the value does not fit.
func (o *opening) buffer(c *redis.ZeroCopyStringCmd) {
	stored := c.Bytes()
	if !envelope.IsSealed(stored) {
		return
	}
	out, err := o.sealer.Open(nil, stored)
	if err == nil && len(out) > cap(stored) {
		err = fmt.Errorf("the buffer has %d bytes, the value %d", cap(stored), len(out))
	}
	if err != nil {
		o.err = err
		c.SetVal(0)
		return
	}
	c.SetVal(copy(stored[:cap(stored)], out))
}
