package handover

import (
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// What systemd is told of the process, if it is systemd that has started it (Type=notify). Each brings a status for people, as
// `systemctl status` shows it.

// SayReady says that the process serves: after its start, and after a reload.
func SayReady(status string) { say(daemon.SdNotifyReady, "STATUS="+status) }

// SayReloading says that the configuration is read again. SayReady follows.
func SayReloading() {
	say(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec(), "STATUS=reading the configuration again")
}

// SayStopping says that the process ends, and within what time.
func SayStopping(within time.Duration, status string) {
	say(daemon.SdNotifyStopping, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", within.Microseconds()), "STATUS="+status)
}

// SayReplaced says that another process is the service now, and has a whole WatchdogInterval to say that it is alive.
func SayReplaced(pid int, status string) {
	say(fmt.Sprintf("MAINPID=%d", pid), "STATUS="+status, daemon.SdNotifyWatchdog)
}

// SayAlive is said again and again, before each WatchdogInterval is over.
func SayAlive() { say(daemon.SdNotifyWatchdog) }

// WatchdogInterval is how long systemd waits for SayAlive before it takes the process for dead; 0: it does not.
func WatchdogInterval() time.Duration {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0
	}
	return interval
}

// Managed reports whether anybody listens to what is said.
func Managed() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// say sends a message as a whole. Errors are nobody's to mend: the process serves all the same.
func say(lines ...string) {
	text := ""
	for _, l := range lines {
		if l != "" {
			text += l + "\n"
		}
	}
	_, _ = daemon.SdNotify(false, text)
}
