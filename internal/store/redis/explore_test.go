package redis

// explored is the result of exploring a model: what it reached, and the shortest way to a broken invariant.
type explored struct {
	states   int
	depth    int      // steps to the state that is farthest from the first
	complete bool     // no state was left out
	broken   string   // the invariant; "": it held in all states
	trace    []string // the steps that lead to the state that breaks it
}

// explore visits every state that a model reaches, breadth first, so that the trace that it returns is as short as
// any. It stops at the first state that breaks an invariant, or after maxStates.
func explore[State comparable, Action any](
	first State, steps func(s State, visit func(a Action, next State)), broken func(State) string, say func(State, Action) string, maxStates int,
) explored {
	type node struct {
		state  State
		action Action // that led here
		from   int32  // index of the state before; -1: none
		depth  int32
	}
	all := []node{{state: first, from: -1}}
	known := map[State]struct{}{first: {}}
	result := explored{complete: true}
	for i := 0; i < len(all); i++ {
		now := all[i]
		result.depth = int(now.depth)
		if result.broken = broken(now.state); result.broken != "" {
			result.complete = false
			result.trace = make([]string, now.depth)
			for at := now; at.from >= 0; at = all[at.from] {
				result.trace[at.depth-1] = say(all[at.from].state, at.action)
			}
			break
		}
		steps(now.state, func(a Action, next State) {
			if _, seen := known[next]; seen {
				return
			}
			if len(all) == maxStates {
				result.complete = false
				return
			}
			known[next] = struct{}{}
			all = append(all, node{next, a, int32(i), now.depth + 1})
		})
	}
	result.states = len(all)
	return result
}
