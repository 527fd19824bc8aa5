package redis

// shape says which bulk strings of a reply are values. Only those are opened: a key, a
// field or a member may begin with the magic too and must not be touched.
//
// A place is the path of indexes from the root; a map counts its keys and values
// singly, so that RESP2's flat pairs and RESP3's maps have the same places.
type shape uint8

const (
	shapeNone        shape = iota
	shapeBulk              // GET: the reply itself
	shapeAll               // MGET: every element
	shapePairs             // HGETALL: f v f v
	shapeRandomPairs       // HRANDFIELD WITHVALUES: f v f v, or in RESP3 [f v] [f v]
	shapeScanPairs         // HSCAN: cursor [f v f v]
	shapeEntries           // XRANGE: [id [f v f v]] …
	shapeClaimed           // XAUTOCLAIM: cursor entries deleted
	shapeStreams           // XREAD: [name entries] …, or in RESP3 a map
	shapeStreamInfo        // XINFO STREAM: entries somewhere inside
	shapeAny               // scripts: anything, at any depth
	shapeSorted            // SORT GET: by a mask over the patterns (op.mask)
)

// level is one aggregate on the way to an element.
type level struct {
	kind      byte  // as in resp.Head
	remaining int64 // elements still to come, without the current one
	index     int64 // of the current element
	nested    bool  // the first element is an aggregate itself
}

// holdsValue reports whether a bulk string at the end of path is a value.
func (s shape) holdsValue(path []level, mask []bool) bool {
	depth := len(path)
	switch s {
	case shapeBulk:
		return depth == 0
	case shapeAll:
		return depth == 1
	case shapePairs:
		return depth == 1 && odd(path, 0)
	case shapeRandomPairs:
		return depth == 1 && odd(path, 0) || depth == 2 && odd(path, 1)
	case shapeScanPairs:
		return depth == 2 && path[0].index == 1 && odd(path, 1)
	case shapeEntries:
		return isEntryValue(path)
	case shapeClaimed:
		return depth == 4 && path[0].index == 1 && isEntryValue(path[1:])
	case shapeStreams:
		return inStreams(path)
	case shapeStreamInfo:
		return depth >= 3 && inEntry(path)
	case shapeAny:
		return true
	case shapeSorted:
		return depth == 1 && len(mask) > 0 && mask[path[0].index%int64(len(mask))]
	}
	return false
}

func odd(path []level, i int) bool { return path[i].index%2 == 1 }

// isEntryValue: list of [id [f v f v]].
func isEntryValue(path []level) bool {
	return len(path) == 3 && path[1].index == 1 && odd(path, 2)
}

// inStreams: RESP2 has [name entries] pairs in an array, RESP3 a map of name to entries.
func inStreams(path []level) bool {
	if len(path) == 0 {
		return false
	}
	if path[0].kind == '%' {
		return odd(path, 0) && isEntryValue(path[1:])
	}
	return len(path) == 5 && path[1].index == 1 && isEntryValue(path[2:])
}

// inEntry finds [id [f v f v]] wherever XINFO STREAM has one: an array of two whose first
// element is a string and whose second is an array. Nothing else in that reply looks like
// it: lists of two groups or consumers begin with an array, pending entries hold none.
func inEntry(path []level) bool {
	n := len(path)
	leaf, entry := path[n-1], path[n-2]
	return leaf.kind == '*' && entry.kind == '*' &&
		entry.index == 1 && entry.remaining == 0 && !entry.nested && leaf.index%2 == 1
}
