package control

import (
	"encoding/json"
	"time"
)

// Policies for sessions that prevent an operation.
const (
	Abort = "abort" // the operation fails and changes nothing; the default
	End   = "end"   // the sessions are ended with admin_shutdown, 57P01
)

// HoldRequest asks a gateway to let no transaction begin.
type HoldRequest struct {
	By     string  `json:"by,omitempty"`     // name of the caller, shown to other callers
	Within Seconds `json:"within,omitempty"` // limit for open transactions to end; 0: 5 s
	// How long to wait, before holding, until all sessions can be moved.
	Patience  Seconds `json:"patience,omitempty"`
	Lease     Seconds `json:"lease,omitempty"`     // a hold that is not renewed ends after this time; 0: 60 s
	Stuck     string  `json:"stuck,omitempty"`     // policy for transactions not ended in time: Abort or End
	Unmovable string  `json:"unmovable,omitempty"` // policy for sessions that can't be moved: Abort or End
	Renew     bool    `json:"renew,omitempty"`     // only renew the lease of an existing hold
}

// MoveRequest asks a gateway that holds its clients to connect them to another server.
type MoveRequest struct {
	To     string  `json:"to"`               // URL without credentials: the gateway uses its own
	Within Seconds `json:"within,omitempty"` // 0: 30 s
	// policy for sessions that can't be restored on the new server: Abort or End
	Unmovable string `json:"unmovable,omitempty"`
	Standby   bool   `json:"standby,omitempty"` // allow a server that only reads
}

// ReachRequest asks a gateway whether its clients could be moved to another server, which may still be a
// standby.
type ReachRequest struct {
	To     string  `json:"to"`               // as in a MoveRequest
	Within Seconds `json:"within,omitempty"` // 0: 10 s
	// start time of the intended server: the epoch of its pg_postmaster_start_time
	Started string `json:"started,omitempty"`
	Logins  bool   `json:"logins,omitempty"` // test logins too: one for each user, database and login method
	// policy for clients whose login fails there: Abort, or End: an error only if all logins fail
	Unmovable string `json:"unmovable,omitempty"`
}

// Seconds is a duration that JSON encodes as a number of seconds.
type Seconds float64

// Or returns the duration, or other if s is not positive.
func (s Seconds) Or(other time.Duration) time.Duration {
	if s <= 0 {
		return other
	}
	return time.Duration(float64(s) * float64(time.Second))
}

// Phases of a gateway.
const (
	Open    = "open"    // clients are served
	Holding = "holding" // no transaction begins; some are still open
	Held    = "held"
	Moving  = "moving"
)

// State of a gateway.
type State struct {
	Gateway   string          `json:"gateway"`
	Upstream  string          `json:"upstream"` // without credentials
	Phase     string          `json:"phase"`
	Remembers bool            `json:"remembers"` // it has a state_file: without one nothing can be moved
	By        string          `json:"by,omitempty"`
	Until     *time.Time      `json:"until,omitempty"` // of the lease
	Waiting   int             `json:"waiting"`         // held clients with requests, new clients included
	Longest   Seconds         `json:"longest_wait"`    // longest wait of a client in the current or last hold
	Sessions  []ClientSession `json:"sessions"`
	// after Reach with unmovable: end: clients whose login failed, which a move would end
	Refused []ClientSession `json:"refused,omitempty"`
	Report  *Report         `json:"report,omitempty"`
}

// Report is shown on the gateway's admin page by a tool that replaces servers: a table and its latest step.
// The gateway keeps it until the process ends.
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
	Reasons     []string `json:"reasons,omitempty"` // why it can't be moved, as far as known
}

// Refusal is an error with the sessions that caused it.
type Refusal struct {
	Message  string          `json:"error"`
	Sessions []ClientSession `json:"sessions,omitempty"`
}

func (r *Refusal) Error() string { return r.Message }

// MarshalJSON encodes r for use as the response body.
func (r *Refusal) MarshalJSON() ([]byte, error) {
	type plain Refusal
	return json.Marshal((*plain)(r))
}
