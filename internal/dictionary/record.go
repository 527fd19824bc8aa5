package dictionary

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/published"
)

// Record is the information about a rule that the gateways of one store share. It is stored as JSON under the
// rule's fingerprint. A gateway that has seen the last version may replace it as a whole. Fields are added,
// never renamed; an older version of Cinch drops those it does not know.
type Record struct {
	Rule    string    `json:"rule"`            // its name at the gateway that trained
	Login   string    `json:"login,omitempty"` // user whose values it compresses; "": the default user, or all users
	Current *Version  `json:"current,omitempty"`
	Former  []Version `json:"former,omitempty"` // latest first; values may still name them
	Older   []Number  `json:"older,omitempty"`  // before Former, to be collected
	Lease   *Lease    `json:"lease,omitempty"`
	Seen    time.Time `json:"seen,omitzero"` // last write by a gateway that has the rule, at least daily
}

// Abandoned reports whether no gateway has had the rule for longer than after.
func (r Record) Abandoned(now time.Time, after time.Duration) bool {
	return now.Sub(r.LastSeen()) > after
}

// LastSeen returns when a gateway last had the rule.
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

// Dictionaries returns all dictionaries that the record names.
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

// Version describes the origin of a dictionary.
type Version struct {
	Dict      Number    `json:"dict"`
	At        time.Time `json:"at"` // when it was announced, by the gateway's clock
	By        string    `json:"by"`
	Bytes     int       `json:"bytes"`            // of the dictionary
	Algorithm string    `json:"algorithm"`        // that made the dictionary
	Setting   string    `json:"setting"`          // with which it was evaluated, without the dictionary's number
	Level     int       `json:"level,omitempty"`  // to use if the rule's own is higher; 0: the rule's own
	Before    float64   `json:"before"`           // stored/raw bytes without it
	Promised  float64   `json:"promised"`         // stored/raw bytes with it, on values it was not trained on
	Values    int       `json:"values"`           // number of those values
	Stored    float64   `json:"stored,omitempty"` // raw bytes that it was weighed against
	Quick     bool      `json:"quick,omitempty"`  // by a quick training: a thorough one is to follow
}

// Gain returns the share of the stored bytes that the dictionary saves.
func (v Version) Gain() float64 {
	if v.Before == 0 {
		return 0
	}
	return 1 - v.Promised/v.Before
}

// Lease names the gateway that trains now. It is advisory: two gateways that train at a time only waste work,
// so clocks need not agree.
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
		return fmt.Errorf("invalid dictionary number %q", text)
	}
	*n = Number(v)
	return nil
}

// Limits of a record. Dictionaries beyond them stay stored, and `cinch dict ls` shows them.
const (
	maxFormer = 16
	maxOlder  = 1024
)

// ParseRecord parses a record's text. "" is an empty record.
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
		panic(err) // a bug: these types marshal
	}
	return string(b)
}

// withLease returns the record with a new lease. If the former holder was about to store a dictionary, that is
// added to Former, since it may have been stored.
func (r Record) withLease(by string, until time.Time) Record {
	if r.Lease != nil && r.Lease.Dict != 0 && !r.names(r.Lease.Dict) {
		r = r.withFormer(Version{Dict: r.Lease.Dict, By: r.Lease.By, At: r.Lease.Until})
	}
	r.Lease = &Lease{By: by, Until: until}
	return r
}

// withPending returns the record with the dictionary that the lease's holder is about to store.
func (r Record) withPending(number Number, until time.Time) Record {
	r.Lease = &Lease{By: r.Lease.By, Until: until, Dict: number}
	return r
}

// withCurrent returns the record with a new current dictionary, and without a lease.
func (r Record) withCurrent(v Version) Record {
	if r.Current != nil && r.Current.Dict != v.Dict {
		r = r.withFormer(*r.Current)
	}
	r.Former = slices.DeleteFunc(slices.Clone(r.Former), func(f Version) bool { return f.Dict == v.Dict })
	r.Older = slices.DeleteFunc(slices.Clone(r.Older), func(n Number) bool { return n == v.Dict })
	r.Current, r.Lease = &v, nil
	return r
}

// withoutLease returns the record without a lease.
func (r Record) withoutLease() Record {
	r.Lease = nil
	return r
}

func (r Record) names(n Number) bool {
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

// leasedByAnother reports whether another gateway's lease advises against training now. A lease that ends
// much later than this gateway's would is from a wrong clock, and is ignored.
func (r Record) leasedByAnother(by string, now time.Time, lease time.Duration) bool {
	return r.Lease != nil && r.Lease.By != by && now.Before(r.Lease.Until) && r.Lease.Until.Sub(now) <= 2*lease
}

// fingerprintOf returns the fingerprint of a rule for the values of one login. The server's default user has
// the rule's own, which is the only one where there are no logins.
func fingerprintOf(r *policy.Rule, login string) string {
	if login == "" {
		return Fingerprint(r)
	}
	return published.RecordOfLogin(Fingerprint(r), login)
}

// FingerprintFor returns the record name of a rule for the values of one login, "" for the server's default
// user.
func FingerprintFor(r *policy.Rule, login string) string {
	if r.Shared {
		login = ""
	}
	return fingerprintOf(r, login)
}

// Fingerprint identifies what a rule covers, the same in all gateways: 16 hexadecimal digits. The rule's name
// and its codec's level are not part of it.
func Fingerprint(r *policy.Rule) string {
	covered := fmt.Sprintf("%q %q %q %d %d %d", r.Key, r.Field, r.Space, r.Types, r.MinSize, r.MaxSize)
	if r.Shared { // a dictionary of all users' values must not be used for one when sharing ends
		covered += " shared"
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(covered)))[:16]
}
