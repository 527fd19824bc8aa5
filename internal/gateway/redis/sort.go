package redis

import (
	"bytes"
	"strings"

	"github.com/cinch-layer/cinch"
)

// SORT reaches for keys that it builds from patterns: BY weights, which the server
// compares, and GET values, which it returns or, with STORE, writes into a list.

// sortScript runs SORT once nothing sealed is in its way. KEYS[1] is the sorted key;
// ARGV: the magic, the BY pattern or "", "k" and the STORE key or "", for each GET 1 or
// for "#" 0, the number of known values,
// envelope and value of each, the command without STORE. It answers with envelopes when
// weights or values to be stored are sealed and unknown. Weights are put back while SORT
// compares them; values go into the list opened, and nothing is stored before all of them
// are known.
const sortScript = putFieldLua + `local m,by,store,gets,n=ARGV[1],ARGV[2],ARGV[3],ARGV[4],tonumber(ARGV[5]) local known,unknown,weights,plain,field={},{` + luaMarker + `},{},{},nil
for i=1,n do known[ARGV[4+2*i]]=ARGV[5+2*i] end
` + lookLua + `
local function check(v) if type(v)=='string' and string.sub(v,1,#m)==m then
if known[v] then return known[v] end unknown[#unknown+1]=v end end
if by~='' then local t=redis.call('TYPE',KEYS[1]).ok local e={}
if t=='list' then e=redis.call('LRANGE',KEYS[1],0,-1) elseif t=='set' then e=redis.call('SMEMBERS',KEYS[1])
elseif t=='zset' then e=redis.call('ZRANGE',KEYS[1],0,-1) end
local star=string.find(by,'*',1,true) local pre,post=string.sub(by,1,star-1),string.sub(by,star+1)
local arrow=string.find(post,'->',1,true)
if arrow and arrow+2<=#post then field=string.sub(post,arrow+2) post=string.sub(post,1,arrow-1) end
for _,x in ipairs(e) do local k=pre..x..post
local v,hidden if field then v=redis.pcall('HGET',k,field) if type(v)=='table' then hidden=v end
else v,hidden=look(k) if v then v=redis.call('GET',k) end end
if hidden and string.find(hidden.err,"user executing the script can't",1,true) then return hidden end
local w=check(v) if w then weights[#weights+1]={k,w,v} plain[w]=true end end end
if #unknown>100 then return {unpack(unknown,1,100)} end
if #unknown>1 then return unknown end
local function put(i) for _,w in ipairs(weights) do if field then local e=putfield(w[1],field,w[i]) if e then return e end else redis.call('SET',w[1],w[i],'KEEPTTL') end end end
local e=put(2) if e then return e end local r=redis.pcall(unpack(ARGV,6+2*n)) put(3)
if store=='' or r.err then return r end store=string.sub(store,2)
for i,v in ipairs(r) do if v==false then r[i]='' elseif not plain[v] and string.byte(gets,(i-1)%#gets+1)==49 then local w=check(v) if w then r[i]=w end end end
if #unknown>100 then return {unpack(unknown,1,100)} end
if #unknown>1 then return unknown end
redis.call('DEL',store) for i=1,#r,1000 do redis.call('RPUSH',store,unpack(r,i,math.min(i+999,#r))) end
return #r`

// sortWatched is sortScript for a client that watches keys: weights that are put back stay so, or it
// would abort the client's transaction each time that it tries.
var sortWatched = strings.Replace(sortScript, " put(3)", "", 1)

// sorting is what matters of a SORT request.
type sorting struct {
	by, store []byte
	gets      []bool // of each GET: it fetches a value (not "#")
	rest      [][]byte
	broken    bool // the server will refuse it
}

func parseSort(args [][]byte) (o sorting) {
	o.rest = append(o.rest, args[0], args[1])
	readOnly := isWord(args[0], "sort_ro")
	for i := 2; i < len(args); i++ {
		n := 0
		switch {
		case isWord(args[i], "asc"), isWord(args[i], "desc"), isWord(args[i], "alpha"):
		case isWord(args[i], "limit"):
			n = 2
		case isWord(args[i], "by"), isWord(args[i], "get"), isWord(args[i], "store") && !readOnly:
			n = 1
		default:
			o.broken = true
		}
		if o.broken = o.broken || i+n >= len(args); o.broken {
			return o
		}
		if isWord(args[i], "store") {
			o.store = args[i+1]
		} else {
			o.note(args[i : i+1+n])
		}
		i += n
	}
	return o
}

// note takes one option and its arguments.
func (o *sorting) note(opt [][]byte) {
	o.rest = append(o.rest, opt...)
	switch {
	case isWord(opt[0], "by"):
		o.by = nil
		if bytes.IndexByte(opt[1], '*') >= 0 {
			o.by = opt[1]
		}
	case isWord(opt[0], "get"):
		o.gets = append(o.gets, len(opt[1]) != 1 || opt[1][0] != '#')
	}
}

func (o *sorting) fetches() bool {
	for _, g := range o.gets {
		if g {
			return true
		}
	}
	return false
}

func (s *session) handleSort(r *request) error {
	o := parseSort(r.args)
	stored := o.store != nil && o.fetches()
	if o.broken || !stored && o.by == nil {
		return s.forward(r, o.entry())
	}
	if s.excluded(append([][]byte{o.by}, r.args[1])) {
		return s.forward(r, o.entry())
	}
	if s.tx.open || s.lua.denied {
		return s.sortPlainly(r, &o)
	}
	return s.sortGuarded(r, &o, stored)
}

func (o *sorting) entry() entry {
	if !o.fetches() || o.store != nil {
		return entry{}
	}
	return entry{shape: shapeSorted, op: &op{mask: o.gets}}
}

// sortPlainly is for where the script can't be used: the weights would be compared sealed.
func (s *session) sortPlainly(r *request, o *sorting) error {
	p := s.rules()
	if p == nil || p.Excluded(o.by) {
		return s.forward(r, o.entry())
	}
	return s.refuse("ERR cinch: SORT with BY, or with GET and STORE, inside MULTI or without the right to run EVAL may meet sealed values; exclude the keys of its patterns")
}

// maxSortRounds bounds how many batches of unknown envelopes one SORT may ask for.
const maxSortRounds = 100

func (s *session) sortGuarded(r *request, o *sorting, stored bool) error {
	store, cmd := o.store, o.rest
	if !stored {
		store, cmd = nil, r.args
	}
	var k []known
	script := sortScript
	if s.watched {
		script = sortWatched
	}
	for range maxSortRounds {
		e := o.entry()
		e.kind = kindAsk
		if e.op == nil {
			e.op = &op{}
		}
		e.op.done = make(chan struct{})
		for _, kv := range k {
			if cinch.IsSealed(kv.value) { // a weight that GET fetches while it is put back
				e.op.plainBytes = append(e.op.plainBytes, kv.value)
			}
		}
		if err := s.ask(e, o.scriptArgs(script, s.sortKeys(r.args[1], o.store), store, k, cmd)); err != nil || e.op.given {
			return err
		}
		if e.op.answer.isError() {
			s.lua.denied = s.lua.denied || isNoLua(e.op.answer.text)
			return s.sortPlainly(r, o)
		}
		more, err := s.openAll(e.op.answer.handedOut())
		s.letGo(e.op)
		if err != nil {
			return s.refuseBroken(err)
		}
		k = append(k, more...)
		s.g.cfg.Stats.Inflated("sort")
	}
	return s.refuse("ERR cinch: SORT over more sealed values than can be opened at once")
}

// sortKeys are the keys that the script names. A node of a cluster has to see that the list which is
// stored is of another slot; elsewhere to name it would ask for more rights than SORT does.
func (s *session) sortKeys(key, store []byte) [][]byte {
	if store == nil || s.g.cfg.cluster == nil {
		return [][]byte{key}
	}
	return [][]byte{key, store}
}

func (o *sorting) scriptArgs(script string, keys [][]byte, store []byte, k []known, cmd [][]byte) [][]byte {
	gets := make([]byte, len(o.gets))
	for i, fetches := range o.gets {
		if gets[i] = '0'; fetches {
			gets[i] = '1'
		}
	}
	if store != nil {
		store = append([]byte("k"), store...)
	}
	call := append([][]byte{[]byte("EVAL"), []byte(script), itoa(len(keys))}, keys...)
	call = append(call, []byte(cinch.Magic), o.by, store, gets, itoa(len(k)))
	for _, kv := range k {
		call = append(call, kv.sealed, kv.value)
	}
	return append(call, cmd...)
}
