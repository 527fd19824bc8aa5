package sql

import (
	"slices"
	"strings"
)

// analysis examines one statement.
type analysis struct {
	tokens    []token
	functions Functions
}

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

var (
	// sessionKeywords begin statements that affect only their own connection.
	sessionKeywords = wordSet("begin start set reset discard listen unlisten savepoint release prepare deallocate close show fetch move")
	// readKeywords begin statements that may only read.
	readKeywords = wordSet("select with values table explain")
	// writeKeywords turn a statement that begins like a read into a write, wherever they stand in it.
	writeKeywords = wordSet("insert update delete merge into analyze truncate")
	// keywords may stand before a parenthesis without being functions.
	keywords = wordSet(`select from where and or not in is as on using values exists any all some over filter with by having join lateral left right inner outer full cross
		when then else case end between like ilike similar distinct cast coalesce nullif greatest least extract substring position overlay trim row array union except intersect
		limit offset order group partition grouping sets rollup cube within materialized recursive interval collate set returning do update conflict insert into default
		varchar char character numeric decimal bit varying timestamp timestamptz time timetz float precision int integer bigint text json jsonb key constraint references check primary unique
		isnull notnull asc desc nulls first last window rows range groups`)
	// replayableFunctions lists volatile functions that return the same results if the same statements are executed
	// in the same order.
	replayableFunctions = wordSet(`nextval setval currval lastval set_config pg_sleep pg_notify pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock pg_advisory_unlock_shared
		pg_advisory_unlock_all pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock
		pg_try_advisory_xact_lock_shared lo_open lo_close lowrite loread lo_lseek lo_put lo_get lo_unlink lo_truncate`)  // not lo_create: its OIDs come from a counter that other sessions advance too
	// fileFunctions lists functions that write files on the server's machine and change nothing else.
	fileFunctions = wordSet("lo_export pg_file_write pg_file_rename pg_file_unlink pg_file_sync")
	// volatileWords lists words whose value depends on time, server or user.
	volatileWords = wordSet(`current_timestamp current_time current_date localtime localtimestamp xmin xmax cmin cmax ctid tableoid current_user session_user
		user current_role system_user current_catalog information_schema regclass regproc regprocedure regtype`)
	// volatileFunctions lists functions whose results depend on time, server or user. Only calls count, because columns
	// may have the same names.
	volatileFunctions = wordSet(`now clock_timestamp statement_timestamp transaction_timestamp timeofday age version current_setting txid_current txid_current_snapshot
		txid_current_if_assigned txid_snapshot_xmin txid_snapshot_xmax inet_server_addr inet_server_port inet_client_addr inet_client_port`)
)

func isKeyword(w string) bool { return keywords[w] }

func (a analysis) effect() Effect {
	if len(a.tokens) == 0 {
		return Session
	}
	first := a.tokens[0]
	if first.mark('(') {
		first = token{word, "select"}
	}
	switch {
	case first.kind != word:
		return Writes
	case first.text == "prepare" && len(a.tokens) > 1 && a.tokens[1].is("transaction"):
		return Writes
	case first.text == "fetch" || first.text == "move":
		return Writes // the cursor's query is not known
	case sessionKeywords[first.text]:
		return Session
	case readKeywords[first.text] && a.onlyReads():
		return Reads
	}
	return Writes
}

// transactionScoped reports whether a statement begins a transaction, or changes something that ends with it.
func (a analysis) transactionScoped() bool {
	switch first := a.tokens[0]; {
	case first.is("begin"), first.is("start"), first.is("savepoint"), first.is("release"):
		return true
	case first.is("set") && len(a.tokens) > 1:
		second := a.tokens[1]
		return second.is("local") || second.is("transaction") || second.is("constraints")
	}
	return false
}

// onlyReads reports whether a statement that begins like a query contains nothing that may write or lock.
func (a analysis) onlyReads() bool {
	for i, t := range a.tokens {
		switch {
		case t.kind == word && writeKeywords[t.text]:
			return false
		case t.is("for") && i+1 < len(a.tokens) && (a.tokens[i+1].is("update") || a.tokens[i+1].is("share") || a.tokens[i+1].is("no") || a.tokens[i+1].is("key")):
			return false
		}
	}
	return a.allCalls(func(name string) bool { return a.functions[name] == Stable })
}

// writesFiles reports whether a statement writes files on the server's machine, or passes rows to a program there,
// and changes nothing else.
func (a analysis) writesFiles() bool {
	if slices.ContainsFunc(a.tokens, func(t token) bool { return t.kind == word && writeKeywords[t.text] }) {
		return false
	}
	switch first := a.tokens[0]; {
	case first.is("copy"):
		return a.copiesToFile()
	case readKeywords[first.text]:
		away := false
		harmless := a.allCalls(func(name string) bool {
			away = away || fileFunctions[name]
			return fileFunctions[name] || a.functions[name] == Stable
		})
		return away && harmless
	}
	return false
}

// copiesToFile reports whether a COPY writes to a file or a program.
func (a analysis) copiesToFile() bool {
	depth := 0
	for i, t := range a.tokens[:len(a.tokens)-1] {
		switch to := a.tokens[i+1]; {
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

// allCalls reports whether ok returns true for all functions that are called. A quoted name before a parenthesis
// counts as a call.
func (a analysis) allCalls(ok func(string) bool) bool {
	for i, t := range a.tokens[:max(len(a.tokens)-1, 0)] {
		if !a.tokens[i+1].mark('(') {
			continue
		}
		if t.kind == quoted && !ok(t.text) || t.kind == word && !keywords[t.text] && !ok(t.text) {
			return false
		}
	}
	return true
}

// nondeterministic reports whether the results are nondeterministic: they depend on time, chance, server or user.
func (a analysis) nondeterministic() bool {
	if len(a.tokens) > 0 && (a.tokens[0].is("show") || a.tokens[0].is("explain")) {
		return true
	}
	for i, t := range a.tokens {
		called := i+1 < len(a.tokens) && a.tokens[i+1].mark('(')
		if t.kind != word || replayableFunctions[t.text] {
			continue
		}
		if volatileWords[t.text] || called && volatileFunctions[t.text] || strings.HasPrefix(t.text, "pg_") {
			return true
		}
		if v, known := a.functions[t.text]; called && known && v == Volatile {
			return true
		}
	}
	return false
}

// ordered reports whether there is an ORDER BY outside of parentheses.
func (a analysis) ordered() bool { return a.topLevel("order") }

// arbitraryRows reports whether there is a limit without an order.
func (a analysis) arbitraryRows() bool {
	return len(a.tokens) > 0 && readKeywords[a.tokens[0].text] && a.limited() && !a.ordered()
}

func (a analysis) limited() bool {
	return a.topLevel("limit") || a.topLevel("fetch") || a.topLevel("offset")
}

func (a analysis) has(w string) bool {
	for _, t := range a.tokens {
		if t.is(w) {
			return true
		}
	}
	return false
}

// selectsAll reports whether the statement selects all columns by * or TABLE.
func (a analysis) selectsAll() bool {
	for i, t := range a.tokens {
		if t.mark('*') && i > 0 && (a.tokens[i-1].mark('.') || a.tokens[i-1].mark(',') || a.tokens[i-1].is("select") || a.tokens[i-1].is("returning") || a.tokens[i-1].is("distinct")) {
			return true
		}
	}
	return len(a.tokens) > 0 && a.tokens[0].is("table")
}

func (a analysis) topLevel(w string) bool {
	depth := 0
	for _, t := range a.tokens {
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
