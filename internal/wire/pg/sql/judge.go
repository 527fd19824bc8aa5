package sql

import (
	"slices"
	"strings"
)

// judgement examines one statement.
type judgement struct {
	tokens    []token
	functions Functions
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

var (
	// sessions begin statements that affect only their own connection.
	sessions = set("begin start set reset discard listen unlisten savepoint release prepare deallocate close show fetch move")
	// readers begin statements that may only read.
	readers = set("select with values table explain")
	// changers make a write of a statement that begins like a read, wherever they stand in it.
	changers = set("insert update delete merge into analyze truncate")
	// keyWords may stand before a parenthesis without being functions.
	keyWords = set(`select from where and or not in is as on using values exists any all some over filter with by having join lateral left right inner outer full cross
		when then else case end between like ilike similar distinct cast coalesce nullif greatest least extract substring position overlay trim row array union except intersect
		limit offset order group partition grouping sets rollup cube within materialized recursive interval collate set returning do update conflict insert into default
		varchar char character numeric decimal bit varying timestamp timestamptz time timetz float precision int integer bigint text json jsonb key constraint references check primary unique
		isnull notnull asc desc nulls first last window rows range groups`)
	// determined lists volatile functions whose results are the same if the same statements came in the same
	// order.
	determined = set(`nextval setval currval lastval set_config pg_sleep pg_notify pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock pg_advisory_unlock_shared
		pg_advisory_unlock_all pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock
		pg_try_advisory_xact_lock_shared lo_open lo_close lowrite loread lo_lseek lo_put lo_get lo_unlink lo_truncate`)  // not lo_create: its numbers come from a counter that others advance too
	// leaving lists functions that write files on the server's machine and change nothing else.
	leaving = set("lo_export pg_file_write pg_file_rename pg_file_unlink pg_file_sync")
	// natural lists words whose value depends on time, server or user.
	natural = set(`current_timestamp current_time current_date localtime localtimestamp xmin xmax cmin cmax ctid tableoid current_user session_user
		user current_role system_user current_catalog information_schema regclass regproc regprocedure regtype`)
	// naturalCalls lists functions whose result does. Columns may have the same names.
	naturalCalls = set(`now clock_timestamp statement_timestamp transaction_timestamp timeofday age version current_setting txid_current txid_current_snapshot
		txid_current_if_assigned txid_snapshot_xmin txid_snapshot_xmax inet_server_addr inet_server_port inet_client_addr inet_client_port`)
)

func isKeyWord(w string) bool { return keyWords[w] }

func (j judgement) effect() Effect {
	if len(j.tokens) == 0 {
		return Session
	}
	first := j.tokens[0]
	if first.mark('(') {
		first = token{word, "select"}
	}
	switch {
	case first.kind != word:
		return Writes
	case first.text == "prepare" && len(j.tokens) > 1 && j.tokens[1].is("transaction"):
		return Writes
	case first.text == "fetch" || first.text == "move":
		return Writes // the cursor's query is not known
	case sessions[first.text]:
		return Session
	case readers[first.text] && j.onlyReads():
		return Reads
	}
	return Writes
}

// passes reports whether a statement begins a transaction, or changes something that ends with it.
func (j judgement) passes() bool {
	switch first := j.tokens[0]; {
	case first.is("begin"), first.is("start"), first.is("savepoint"), first.is("release"):
		return true
	case first.is("set") && len(j.tokens) > 1:
		second := j.tokens[1]
		return second.is("local") || second.is("transaction") || second.is("constraints")
	}
	return false
}

// onlyReads reports whether a statement that begins like a query contains nothing that may write or lock.
func (j judgement) onlyReads() bool {
	for i, t := range j.tokens {
		switch {
		case t.kind == word && changers[t.text]:
			return false
		case t.is("for") && i+1 < len(j.tokens) && (j.tokens[i+1].is("update") || j.tokens[i+1].is("share") || j.tokens[i+1].is("no") || j.tokens[i+1].is("key")):
			return false
		}
	}
	return j.calls(func(name string) bool { return j.functions[name] == Stable })
}

// leaves reports whether a statement writes files on the server's machine, or passes rows to a program there,
// and changes nothing else.
func (j judgement) leaves() bool {
	if slices.ContainsFunc(j.tokens, func(t token) bool { return t.kind == word && changers[t.text] }) {
		return false
	}
	switch first := j.tokens[0]; {
	case first.is("copy"):
		return j.copiesAway()
	case readers[first.text]:
		away := false
		harmless := j.calls(func(name string) bool {
			away = away || leaving[name]
			return leaving[name] || j.functions[name] == Stable
		})
		return away && harmless
	}
	return false
}

// copiesAway reports whether a COPY writes to a file or a program.
func (j judgement) copiesAway() bool {
	depth := 0
	for i, t := range j.tokens[:len(j.tokens)-1] {
		switch to := j.tokens[i+1]; {
		case t.mark('('):
			depth++
		case t.mark(')'):
			depth--
		case depth == 0 && t.is("to"):
			return to.kind == literal || to.is("program")
		}
	}
	return false
}

// calls reports whether ok returns true for all functions that are called. A quoted name before a parenthesis
// counts as a call.
func (j judgement) calls(ok func(string) bool) bool {
	for i, t := range j.tokens[:max(len(j.tokens)-1, 0)] {
		if !j.tokens[i+1].mark('(') {
			continue
		}
		if t.kind == quoted && !ok(t.text) || t.kind == word && !keyWords[t.text] && !ok(t.text) {
			return false
		}
	}
	return true
}

// nature reports whether the results are nondeterministic: they depend on time, chance, server or user.
func (j judgement) nature() bool {
	if len(j.tokens) > 0 && (j.tokens[0].is("show") || j.tokens[0].is("explain")) {
		return true
	}
	for i, t := range j.tokens {
		called := i+1 < len(j.tokens) && j.tokens[i+1].mark('(')
		if t.kind != word || determined[t.text] {
			continue
		}
		if natural[t.text] || called && naturalCalls[t.text] || strings.HasPrefix(t.text, "pg_") {
			return true
		}
		if v, known := j.functions[t.text]; called && known && v == Volatile {
			return true
		}
	}
	return false
}

// ordered reports whether there is an ORDER BY outside of parentheses.
func (j judgement) ordered() bool { return j.outside("order") }

// chance reports whether there is a limit without an order.
func (j judgement) chance() bool {
	return len(j.tokens) > 0 && readers[j.tokens[0].text] && j.limited() && !j.ordered()
}

func (j judgement) limited() bool {
	return j.outside("limit") || j.outside("fetch") || j.outside("offset")
}

func (j judgement) has(w string) bool {
	for _, t := range j.tokens {
		if t.is(w) {
			return true
		}
	}
	return false
}

// star reports whether the statement selects all columns by * or TABLE.
func (j judgement) star() bool {
	for i, t := range j.tokens {
		if t.mark('*') && i > 0 && (j.tokens[i-1].mark('.') || j.tokens[i-1].mark(',') || j.tokens[i-1].is("select") || j.tokens[i-1].is("returning") || j.tokens[i-1].is("distinct")) {
			return true
		}
	}
	return len(j.tokens) > 0 && j.tokens[0].is("table")
}

func (j judgement) outside(w string) bool {
	depth := 0
	for _, t := range j.tokens {
		switch {
		case t.mark('('):
			depth++
		case t.mark(')'):
			depth--
		case depth == 0 && t.is(w):
			return true
		}
	}
	return false
}
