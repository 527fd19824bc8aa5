package handover

import (
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifications for systemd, if it has started the process (Type=notify). Each has a readable status, which
// `systemctl status` shows.

// SayReady reports that the process serves: after its start, and after a reload.
func SayReady(status string) { say(daemon.SdNotifyReady, "STATUS="+status) }

// SayReloading reports that the configuration is read again. SayReady must follow.
func SayReloading() {
	say(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec(), "STATUS=reading the configuration again")
}

// SayStopping reports that the process will end within the given time.
func SayStopping(within time.Duration, status string) {
	say(daemon.SdNotifyStopping, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", within.Microseconds()), "STATUS="+status)
}

// SayReplaced reports that another process is the service now. Its first WatchdogInterval starts anew.
func SayReplaced(pid int, status string) {
	say(fmt.Sprintf("MAINPID=%d", pid), "STATUS="+status, daemon.SdNotifyWatchdog)
}

// SayAlive must be called before each WatchdogInterval ends.
func SayAlive() { say(daemon.SdNotifyWatchdog) }

// WatchdogInterval returns how long systemd waits for SayAlive before it considers the process dead; 0: it
// does not watch.
func WatchdogInterval() time.Duration {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0
	}
	return interval
}

// Managed reports whether a service manager receives notifications.
func Managed() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// say sends a message as a whole. Errors are ignored: the process serves all the same.
func say(lines ...string) {
	text := ""
	for _, l := range lines {
		if l != "" {
			text += l + "\n"
		}
	}
	_, _ = daemon.SdNotify(false, text)
}
