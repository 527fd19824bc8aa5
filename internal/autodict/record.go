package autodict

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/agreed"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Record is what the gateways in front of one store tell each other about a rule. It is
// kept in the store as JSON, under the rule's fingerprint, and replaced as a whole by a
// gateway that has seen the last version. Fields are added, never renamed; unknown ones are
// lost when an older version of Cinch replaces it.
type Record struct {
	Rule    string    `json:"rule"`            // its name where it was trained
	Login   string    `json:"login,omitempty"` // whose values it is about; "": the default user's, or everybody's
	Current *Version  `json:"current,omitempty"`
	Former  []Version `json:"former,omitempty"` // latest first; values may still name them
	Older   []Number  `json:"older,omitempty"`  // those before, for their collection
	Lease   *Lease    `json:"lease,omitempty"`
	Seen    time.Time `json:"seen,omitzero"` // when a gateway that has the rule last wrote it: once a day at least
}

// Abandoned reports that no gateway has had the rule for so long.
func (r Record) Abandoned(now time.Time, after time.Duration) bool {
	return now.Sub(r.LastSeen()) > after
}

// LastSeen is when a gateway last had the rule.
func (r Record) LastSeen() time.Time {
	last := r.Seen
	if r.Current != nil && r.Current.At.After(last) {
		last = r.Current.At
	}
	if r.Lease != nil && r.Lease.Until.After(last) {
		last = r.Lease.Until
	}
	return last
}

// Dictionaries are all that the record names.
func (r Record) Dictionaries() []Number {
	var all []Number
	if r.Current != nil {
		all = append(all, r.Current.Dict)
	}
	for _, v := range r.Former {
		all = append(all, v.Dict)
	}
	all = append(all, r.Older...)
	if r.Lease != nil && r.Lease.Dict != 0 {
		all = append(all, r.Lease.Dict)
	}
	return all
}

// Version says where a dictionary came from.
type Version struct {
	Dict      Number    `json:"dict"`
	At        time.Time `json:"at"` // when it was announced, by the gateway's clock
	By        string    `json:"by"`
	Bytes     int       `json:"bytes"`            // of the dictionary
	Algorithm string    `json:"algorithm"`        // that made it
	Setting   string    `json:"setting"`          // that it was judged with, without its number
	Level     int       `json:"level,omitempty"`  // to seal with where the rule's own is higher; 0: the rule's own
	Before    float64   `json:"before"`           // bytes stored by bytes raw, before
	Promised  float64   `json:"promised"`         // and with it, on values it was not trained on
	Values    int       `json:"values"`           // how many these were
	Stored    float64   `json:"stored,omitempty"` // raw bytes that it was weighed against
}

// Gain is the share of the stored bytes that the dictionary saves.
func (v Version) Gain() float64 {
	if v.Before == 0 {
		return 0
	}
	return 1 - v.Promised/v.Before
}

// Lease says who trains right now. It is a courtesy: two that train at a time waste work
// and nothing else, so clocks need not agree.
type Lease struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
	Dict  Number    `json:"dict,omitempty"` // about to be stored
}

// Number is a dictionary's number, 8 hexadecimal digits in text.
type Number uint32

// MarshalText implements encoding.TextMarshaler.
func (n Number) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%08x", uint32(n)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Number) UnmarshalText(text []byte) error {
	var v uint32
	if _, err := fmt.Sscanf(string(text), "%08x", &v); err != nil || len(text) != 8 {
		return fmt.Errorf("dictionary number %q", text)
	}
	*n = Number(v)
	return nil
}

// Bounds of a record. What falls out is stored still, and `cinch dict ls` shows it.
const (
	maxFormer = 16
	maxOlder  = 1024
)

// ParseRecord reads a record's text. No text is a record without anything.
func ParseRecord(text string) (Record, error) {
	var r Record
	if text == "" {
		return r, nil
	}
	err := json.Unmarshal([]byte(text), &r)
	return r, err
}

func (r Record) text() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // of our own types: a mistake of ours
	}
	return string(b)
}

// leasedTo is the record with a lease. A lease that is taken over leaves the dictionary
// that its holder was about to store among the former: perhaps it did.
func (r Record) leasedTo(by string, until time.Time) Record {
	if r.Lease != nil && r.Lease.Dict != 0 && !r.knows(r.Lease.Dict) {
		r = r.withFormer(Version{Dict: r.Lease.Dict, By: r.Lease.By, At: r.Lease.Until})
	}
	r.Lease = &Lease{By: by, Until: until}
	return r
}

// naming is the record with the dictionary that the lease's holder is about to store.
func (r Record) naming(number Number, until time.Time) Record {
	r.Lease = &Lease{By: r.Lease.By, Until: until, Dict: number}
	return r
}

// announcing is the record with a new current dictionary, and without a lease.
func (r Record) announcing(v Version) Record {
	if r.Current != nil && r.Current.Dict != v.Dict {
		r = r.withFormer(*r.Current)
	}
	r.Former = slices.DeleteFunc(slices.Clone(r.Former), func(f Version) bool { return f.Dict == v.Dict })
	r.Older = slices.DeleteFunc(slices.Clone(r.Older), func(n Number) bool { return n == v.Dict })
	r.Current, r.Lease = &v, nil
	return r
}

// released is the record without a lease.
func (r Record) released() Record {
	r.Lease = nil
	return r
}

func (r Record) knows(n Number) bool {
	return r.Current != nil && r.Current.Dict == n || slices.Contains(r.Older, n) ||
		slices.ContainsFunc(r.Former, func(v Version) bool { return v.Dict == n })
}

func (r Record) withFormer(v Version) Record {
	all := append([]Version{v}, r.Former...)
	r.Former = all[:min(len(all), maxFormer)]
	for _, old := range all[len(r.Former):] {
		r.Older = append([]Number{old.Dict}, r.Older...)
	}
	r.Older = r.Older[:min(len(r.Older), maxOlder)]
	return r
}

// leasedByAnother reports whether it is better not to train now. A lease that ends much
// later than one of ours would is by a clock that is wrong, and nothing to wait for.
func (r Record) leasedByAnother(by string, now time.Time, lease time.Duration) bool {
	return r.Lease != nil && r.Lease.By != by && now.Before(r.Lease.Until) && r.Lease.Until.Sub(now) <= 2*lease
}

// fingerprintOf is that of a rule for the values of one login. The server's default user has the
// rule's own: it is the only one where there are no logins.
func fingerprintOf(r *policy.Rule, login string) string {
	if login == "" {
		return Fingerprint(r)
	}
	return agreed.RecordOfLogin(Fingerprint(r), login)
}

// FingerprintFor is that of what the values of one login, "" for the server's default user, are recorded under.
func FingerprintFor(r *policy.Rule, login string) string {
	if r.Shared {
		login = ""
	}
	return fingerprintOf(r, login)
}

// Fingerprint names what a rule covers, the same in all gateways: 16 hexadecimal digits.
// Its name and its codec's level are no part of it.
func Fingerprint(r *policy.Rule) string {
	covered := fmt.Sprintf("%q %q %q %d %d %d", r.Key, r.Field, r.Space, r.Types, r.MinSize, r.MaxSize)
	if r.Shared { // what was made of the values of all is no more for one when that ends
		covered += " shared"
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(covered)))[:16]
}
