package store

import "slices"

// SoleWriter returns the only user that may have written values on the nodes, and whether there is only one. writers
// lists the users of a node. unauthenticated is the name of the user of clients that don't log in, for which
// SoleWriter returns "". If no node lists a user, clients must use own, the user of the store's connections.
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
