package postgres

import "testing"

// Each letter is a message: the client's in lower case p(arse, or anything else of the extended protocol)
// s(ync) q(uery) d(ata) e(nd of data) f(lush), the server's Z (idle) T (in a transaction) G (asks for data)
// E(rror).
func TestTrackerFollows(t *testing.T) {
	clients := map[byte]byte{'p': 'P', 's': 'S', 'q': 'Q', 'd': 'd', 'e': 'c', 'f': 'H'}
	for messages, busy := range map[string]string{ // busy after each message: 1
		"qZ":           "10",
		"qqZZ":         "1110",
		"pppsZ":        "11110",
		"pspsZZ":       "111110",
		"fqZ":          "010",
		"qTqZ":         "1110",
		"ppfpsZ":       "111110",
		"qGddeZ":       "111110", // COPY by a simple query
		"qddeGZ":       "111110", // data before the server asks for it
		"ppsGddesZ":    "111111110",
		"ppsddesGZ":    "111111110", // Sync, data, Sync, all at once
		"ppsddeGsZ":    "111111110",
		"ppfGddesZ":    "111111110",
		"ppsddesEZZ":   "1111111110", // the COPY was refused: both Syncs are answered
		"ppsGdEsZ":     "11111110",   // the client has seen the error
		"qGdEdeZ":      "1111110",
		"ppsddesqGZZ":  "11111111110",
		"psqpsZZZ":     "11111110",
		"ppsGdesppsZZ": "111111111110",
		"qGdeGdeZ":     "11111110", // two in one query
	} {
		tr := tracker{status: idle}
		var got []byte
		for i := range len(messages) {
			switch c := messages[i]; c {
			case 'Z':
				tr.reply('Z', []byte{'I'})
			case 'T':
				tr.reply('Z', []byte{'T'})
			case 'G', 'E':
				tr.reply(c, nil)
			default:
				tr.request(clients[c])
			}
			got = append(got, map[bool]byte{true: '1', false: '0'}[tr.busy()])
		}
		if string(got) != busy || tr.lost {
			t.Errorf("%s: busy %s, not %s (lost: %v)", messages, got, busy, tr.lost)
		}
	}
}

// Once the tracker has lost track of a session, the session counts as busy until its end.
func TestTrackerLoses(t *testing.T) {
	for _, reply := range []string{"Z", "G", "W"} {
		tr := tracker{status: idle}
		tr.reply(reply[0], []byte{'I'})
		tr.request('Q')
		tr.reply('Z', []byte{'I'})
		if !tr.lost || !tr.busy() || tr.units != nil {
			t.Errorf("%s: %+v", reply, tr)
		}
	}
}

func FuzzTracker(f *testing.F) {
	f.Add([]byte("QZPBESGdcSZ"))
	f.Fuzz(func(t *testing.T, kinds []byte) {
		tr := tracker{status: idle}
		asked := 0
		for i, k := range kinds {
			if i%3 == 2 {
				tr.reply(k, []byte{'I'})
				continue
			}
			tr.request(k)
			asked++
		}
		if len(tr.units) > asked {
			t.Errorf("%d units of %d messages", len(tr.units), asked)
		}
	})
}
