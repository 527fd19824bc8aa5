package store

import "slices"

// SoleWriter returns the only user that may write values on any of the nodes. Values of unauthenticated, the user of
// clients that don't log in, are those of "". If there is no such user, clients use that of the store's connections.
func SoleWriter[Node any](nodes []Node, writers func(Node) ([]string, error), own, unauthenticated string) (login string, one bool) {
	var all []string
	for _, n := range nodes {
		some, err := writers(n)
		if err != nil {
			return "", false
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	switch all = slices.Compact(all); {
	case len(all) == 0:
		return own, true
	case len(all) > 1:
		return "", false
	case all[0] == unauthenticated:
		return "", true
	}
	return all[0], true
}
