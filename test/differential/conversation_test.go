package differential

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// conversations are pipelines in which replies could be assigned to the wrong request. Commands are
// separated by lines; {huge}, {big}, {text}, {magic} and {env} stand for values.
var conversations = map[string]string{
	"muted transaction":        "SET k {text}\nCLIENT REPLY OFF\nMULTI\nAPPEND k x\nSTRLEN k\nEXEC\nCLIENT REPLY ON\nSTRLEN k\nGET k",
	"skipped MULTI":            "SET k {text}\nCLIENT REPLY SKIP\nMULTI\nAPPEND k x\nEXEC\nSTRLEN k",
	"skipped EXEC":             "SET k {text}\nMULTI\nSTRLEN k\nAPPEND k y\nDISCARD\nCLIENT REPLY SKIP\nEXEC\nSTRLEN k",
	"skipped class I":          "SET k {text}\nCLIENT REPLY SKIP\nAPPEND k x\nSTRLEN k\nCLIENT REPLY SKIP\nSTRLEN k\nGET k",
	"skipped big request":      "CLIENT REPLY SKIP\nSET k {big}\nSTRLEN k\nCLIENT REPLY SKIP\nRPUSH l {big}\nLLEN l\nCLIENT REPLY SKIP\nMSET a {big} b {big}\nSTRLEN b",
	"muted big request":        "CLIENT REPLY OFF\nSET k {big}\nAPPEND k {big}\nHSET h f {big}\nRPUSH l {big}\nCLIENT REPLY ON\nSTRLEN k\nHSTRLEN h f",
	"muted wrong big request":  "CLIENT REPLY OFF\nHSET h f {big} g\nSETEX k\nCLIENT REPLY ON\nPING",
	"RESET ends muting":        "CLIENT REPLY OFF\nSET k {text}\nRESET\nGET k",
	"RESET is skipped":         "CLIENT REPLY SKIP\nRESET\nSTRLEN k\nCLIENT REPLY SKIP\nCLIENT REPLY ON\nGET k",
	"RESET in a transaction":   "MULTI\nSET k {text}\nAPPEND k x\nRESET\nGET k\nEXEC",
	"SELECT in a transaction":  "MULTI\nSELECT 1\nSET k {text}\nSTRLEN k\nEXEC\nGET k\nSELECT 0\nGET k",
	"set then use in EXEC":     "MULTI\nSET k {text}\nAPPEND k x\nGETRANGE k 0 9\nHSET h f {text}\nHSTRLEN h f\nGETSET k {magic}\nSTRLEN k\nAPPEND k z\nEXEC\nGET k",
	"use right behind writes":  "SET k {text}\nMULTI\nSET other {text}\nAPPEND k y\nBITCOUNT k\nEXEC\nSET k {text}\nMULTI\nEVAL return(redis.call('APPEND',KEYS[1],'x')) 1 k\nEXEC\nSTRLEN k",
	"scripts inside EXEC":      "SET k {magic}\nMULTI\nEVAL return(redis.call('GET',KEYS[1])) 1 k\nSET k {env}\nEVAL return(redis.call('STRLEN',KEYS[1])) 1 k\nEXEC\nGET k",
	"aborted transaction":      "SET k {text}\nMULTI\nAPPEND k\nSTRLEN k\nFOO\nEXEC\nSTRLEN k\nMULTI\nAPPEND k x\nEXEC",
	"own WATCH":                "SET k {text}\nWATCH k\nAPPEND k x\nMULTI\nSTRLEN k\nEXEC\nWATCH k\nSTRLEN k\nGET k\nMULTI\nAPPEND k y\nEXEC\nSTRLEN k",
	"huge values":              "SET k {huge}\nGET k\nSTRLEN k\nHSET h f {huge}\nHGET h f\nSET k {big}{huge}\nGETRANGE k 3000000 -1\nMSET a {huge} b {text}\nMGET a b\nAPPEND a {text}\nGET a",
	"subscribed":               "SET k {text}\nSUBSCRIBE a\nGET k\nPING\nPSUBSCRIBE p*\nPUBLISH a x\nUNSUBSCRIBE\nGET k\nPUNSUBSCRIBE\nGET k\nSTRLEN k",
	"unsubscribed from none":   "UNSUBSCRIBE\nPUNSUBSCRIBE\nSUNSUBSCRIBE\nUNSUBSCRIBE a b\nPING",
	"sharded":                  "SSUBSCRIBE s t\nSUNSUBSCRIBE s\nSUNSUBSCRIBE\nPING",
	"RESP3 pub/sub":            "HELLO 3\nSET k {text}\nSUBSCRIBE a\nSTRLEN k\nPUBLISH a {text}\nGET k\nPUBLISH a {env}\nAPPEND k x\nUNSUBSCRIBE\nGETRANGE k 0 5",
	"subscribe in EXEC":        "HELLO 3\nMULTI\nSUBSCRIBE a\nSET k {text}\nPUBLISH a hi\nGET k\nUNSUBSCRIBE\nEXEC\nGET k",
	"subscribe in EXEC, RESP2": "MULTI\nSUBSCRIBE a\nPING\nUNSUBSCRIBE a\nEXEC\nGET k",
	"tracking":                 "HELLO 3\nCLIENT TRACKING ON\nSET k {text}\nGET k\nSET k {text}\nSTRLEN k\nAPPEND k x\nGETRANGE k 0 3\nSET k y\nMGET k k\nDEL k\nCLIENT TRACKING OFF\nGET k",
	"tracking by choice":       "HELLO 3\nCLIENT TRACKING ON OPTIN\nSET k {text}\nCLIENT CACHING YES\nSTRLEN k\nSET k {text}\nSTRLEN k\nSET k z\nGET k",
	"tracking in EXEC":         "HELLO 3\nCLIENT TRACKING ON\nSET k {text}\nGET k\nMULTI\nSET k {text}\nGET k\nAPPEND k x\nEXEC\nGET k",
	"protocol switches":        "SET k {text}\nHSET h f {text}\nHELLO 3\nHGETALL h\nSTRLEN k\nHRANDFIELD h 1 WITHVALUES\nHELLO 2\nHGETALL h\nHRANDFIELD h 1 WITHVALUES\nHELLO 9\nHELLO 3 AUTH nobody wrong\nGET k",
	"streams":                  "XADD s 1-1 f {text} g {magic}\nXADD s 2-1 {env} {env}\nXGROUP CREATE s g 0\nXREADGROUP GROUP g c STREAMS s >\nXREADGROUP GROUP g c STREAMS s 0\nXCLAIM s g d 0 1-1\nXAUTOCLAIM s g e 0 0\nXRANGE s - +\nXREAD STREAMS s 0\nHELLO 3\nXREAD STREAMS s 0\nXREADGROUP GROUP g e STREAMS s 0\nXCLAIM s g d 0 1-1 JUSTID\nXREVRANGE s + -",
	"blocked, then served":     "RPUSH l {env}\nBLPOP l 0\nBLPOP none 0.01\nXADD s 1-1 f {text}\nXREAD BLOCK 10 STREAMS s 0\nXREAD BLOCK 10 STREAMS s $\nGET l",
	"sort":                     "RPUSH l 3 1 2\nMSET w1 1 w2 3 w3 2 v1 {text} v2 {magic} v3 {env}\nSORT l BY w* GET v* GET #\nSORT l BY w* GET v* STORE out\nLRANGE out 0 -1\nSORT l GET v* LIMIT 1 1\nSORT_RO l BY w*\nSORT_RO l STORE out\nSORT l BY v* ALPHA GET v* STORE out\nLRANGE out 0 -1\nMGET v1 v2 v3",
	"values like envelopes":    "SET k {env}\nGET k\nSTRLEN k\nGETRANGE k 0 5\nAPPEND k {magic}\nGET k\nSETRANGE k 0 {magic}\nGET k\nSETRANGE n 0 {env}\nGET n\nAPPEND m {env}\nGET m\nCOPY m c\nGET c\nGETDEL c\nHSET h f {env}\nHGET h f\nHSTRLEN h f\nHINCRBYFLOAT h f 1\nHGET h f\nEVAL return(redis.call('HSET',KEYS[1],'g',ARGV[1])) 1 h {env}\nHMGET h f g",
	"echoed by scripts":        "EVAL return(ARGV[1]) 0 {env}\nEVAL return(ARGV[1]) 1 k {env}\nEVAL return(ARGV[1]) 1 k {magic}\nSET k {env}\nEVAL return{redis.call('GET',KEYS[1]),ARGV[1]} 1 k {magic}\nEVAL return(redis.call('GETRANGE',KEYS[1],0,2)) 1 k\nPING {env}\nECHO {env}\nRPUSH l {env}\nLRANGE l 0 -1\nSADD t {env}\nSMEMBERS t\nZADD z 1 {env}\nZRANGE z 0 -1",
	"long numbers":             "SET f 0000000000000000000000000000000000000000000000000000000000000000000000000000000000001.5\nINCRBYFLOAT f 1\nHSET h f 0000000000000000000000000000000000000000000000000000000000000000000000000000001.5\nHINCRBYFLOAT h f 1\nGET f\nHGET h f\nSET n 9223372036854775807\nINCR n\nBITFIELD n GET i64 0\nBITFIELD n GET u63 1 SET i64 0 -2\nGET n",
	"64-bit fields watched":    "SET k {text}\nWATCH other\nBITFIELD k GET i64 0 INCRBY u63 #2 200\nMULTI\nBITFIELD k GET i64 0 OVERFLOW SAT INCRBY i64 #1 9223372036854775807\nBITFIELD_RO k GET i64 8\nEXEC\nGET k",
	"errors keep their order":  "HSET h f v\nBITFIELD_RO h GET u64 0\nBITFIELD h GET u63 #x\nSETBIT h x 1\nSETRANGE h -1 x\nGETRANGE h a b\nLCS h h IDX LEN\nBITOP NOT d h h\nSTRLEN h\nAPPEND h x\nEVAL return(redis.call('GET',KEYS[1])) 1 h\nSORT h BY w*",
}

func TestConversations(t *testing.T) {
	plain := testenv.Redis(t)
	for _, m := range modes()[:3] {
		upstream := testenv.Redis(t)
		cfg := m.gateways[0]
		cfg.Upstream = upstream.Addr
		g := testenv.Gateway(t, cfg)
		for name, script := range conversations {
			t.Run(m.name+"/"+name, func(t *testing.T) {
				var want, got [][]byte
				for _, silence := range []time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second} {
					want, got = converse(t, plain.Addr, plain.Addr, script, silence), converse(t, g.Addr, upstream.Addr, script, silence)
					if len(want) == len(got) {
						break // otherwise an unsolicited frame may have arrived late
					}
				}
				for i := range max(len(want), len(got)) {
					a, b := at(want, i), at(got, i)
					if d, ok := refusal(b); ok && !bytes.Equal(a, b) {
						t.Skipf("documented: %v", d)
					}
					if !agree(helloReply, a, b) {
						t.Fatalf("frame %d of\n%s\n  plain:   %s\n  gateway: %s", i, script, clip(a, b), clip(b, a))
					}
				}
			})
		}
	}
}

func at(frames [][]byte, i int) []byte {
	if i < len(frames) {
		return frames[i]
	}
	return []byte("(nothing)")
}

// converse empties the server, sends a conversation in one write, and returns all frames received.
func converse(t *testing.T, addr, server, script string, silence time.Duration) [][]byte {
	t.Helper()
	direct, err := dial(server)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.close()
	if _, err := direct.do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	text := strings.Repeat(`{"menu":"price"},`, 30)
	env := string(envelope.NewSealer(envelope.SealerOptions{}).Escape(nil, []byte(text)))
	values := map[string]string{"{huge}": strings.Repeat(text, 3<<20/len(text)+1)[:3<<20], "{big}{huge}": strings.Repeat(text, 4<<20/len(text)), "{text}": text, "{big}": strings.Repeat(text, 100), "{magic}": string(envelope.Magic), "{env}": env}
	var requests []byte
	for line := range strings.Lines(script + "\nPING " + endMark) {
		args := bytes.Fields([]byte(line))
		for i, a := range args {
			if v, ok := values[string(a)]; ok {
				args[i] = []byte(v)
			}
		}
		requests = encode(requests, args)
	}
	if _, err := c.conn.Write(requests); err != nil {
		t.Fatal(err)
	}
	return allFrames(t, c, silence)
}

// endMark is sent after every conversation.
const endMark = "end-of-conversation"

// allFrames reads up to the end mark, and unsolicited frames after it until none has arrived for a while.
func allFrames(t *testing.T, c *client, silence time.Duration) (frames [][]byte) {
	t.Helper()
	wait := replyTimeout
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(wait))
		frame, err := c.frame()
		if os.IsTimeout(err) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, frame)
		if bytes.Contains(frame, []byte(endMark)) {
			wait = silence
		}
	}
}
