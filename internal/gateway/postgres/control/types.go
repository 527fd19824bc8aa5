package control

import (
	"encoding/json"
	"time"
)

// What becomes of sessions that stand in the way.
const (
	Abort = "abort" // the operation fails, and leaves everything as it was; the default
	End   = "end"   // they are ended: admin_shutdown, 57P01
)

// HoldRequest asks a gateway to let no transaction begin.
type HoldRequest struct {
	By        string  `json:"by,omitempty"`        // who asks, for others who ask
	Within    Seconds `json:"within,omitempty"`    // for transactions under way to end; 0: 5 s
	Patience  Seconds `json:"patience,omitempty"`  // for sessions that can't be moved to become such that can, before anything is held
	Lease     Seconds `json:"lease,omitempty"`     // after which a hold that nobody renews ends by itself; 0: 60 s
	Stuck     string  `json:"stuck,omitempty"`     // transactions that don't end in time: abort or end
	Unmovable string  `json:"unmovable,omitempty"` // sessions that can't be moved: abort or end
	Renew     bool    `json:"renew,omitempty"`     // only the lease, of a hold that there is
}

// MoveRequest asks a gateway that holds its clients to connect them to another server.
type MoveRequest struct {
	To        string  `json:"to"`                  // URL without credentials: those are the gateway's own
	Within    Seconds `json:"within,omitempty"`    // 0: 30 s
	Unmovable string  `json:"unmovable,omitempty"` // sessions that the new server does not take as they are: abort or end
	Standby   bool    `json:"standby,omitempty"`   // it may be one that only reads
}

// ReachRequest asks a gateway whether its clients could be moved to another server, which may be a standby still.
type ReachRequest struct {
	To        string  `json:"to"`                  // as in a MoveRequest
	Within    Seconds `json:"within,omitempty"`    // 0: 10 s
	Started   string  `json:"started,omitempty"`   // when the server that is meant was started: the epoch of its pg_postmaster_start_time
	Logins    bool    `json:"logins,omitempty"`    // clients log in there, too: one for each user, database and way to log in
	Unmovable string  `json:"unmovable,omitempty"` // clients that could not: abort, or end: it is refused only if nobody could
}

// Seconds are written as a number.
type Seconds float64

// Or is the duration, or another one for none.
func (s Seconds) Or(other time.Duration) time.Duration {
	if s <= 0 {
		return other
	}
	return time.Duration(float64(s) * float64(time.Second))
}

// Phases of a gateway.
const (
	Open    = "open"    // clients are served
	Holding = "holding" // no transaction begins; some are under way
	Held    = "held"
	Moving  = "moving"
)

// State of a gateway.
type State struct {
	Gateway   string          `json:"gateway"`
	Upstream  string          `json:"upstream"` // without credentials
	Phase     string          `json:"phase"`
	Remembers bool            `json:"remembers"` // it has a state_file: without one nothing moves
	By        string          `json:"by,omitempty"`
	Until     *time.Time      `json:"until,omitempty"` // of the lease
	Waiting   int             `json:"waiting"`         // clients that want something and are held, those that have just come included
	Longest   Seconds         `json:"longest_wait"`    // of a client, in the last hold, or in the one that there is
	Sessions  []ClientSession `json:"sessions"`
	Refused   []ClientSession `json:"refused,omitempty"` // after Reach with unmovable: end: those that could not log in, and would be ended
	Report    *Report         `json:"report,omitempty"`
}

// Report is what somebody who replaces servers behind a gateway has its admin page show: a table, and what was done last. The gateway keeps it until
// it ends.
type Report struct {
	Title  string     `json:"title"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
	Latest string     `json:"latest,omitempty"`
}

// ClientSession is one client.
type ClientSession struct {
	ID          uint64   `json:"id"`
	Client      string   `json:"client"` // address
	User        string   `json:"user"`
	Database    string   `json:"database"`
	Application string   `json:"application,omitempty"`
	State       string   `json:"state"` // logging in, idle, in transaction, active
	Waiting     bool     `json:"waiting,omitempty"`
	Reasons     []string `json:"reasons,omitempty"` // why it can't be moved, as far as is known
}

// Refusal is an error with the sessions that caused it.
type Refusal struct {
	Message  string          `json:"error"`
	Sessions []ClientSession `json:"sessions,omitempty"`
}

func (r *Refusal) Error() string { return r.Message }

// MarshalJSON makes it its own answer.
func (r *Refusal) MarshalJSON() ([]byte, error) {
	type plain Refusal
	return json.Marshal((*plain)(r))
}
