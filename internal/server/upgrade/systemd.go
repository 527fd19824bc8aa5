package upgrade

import (
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifications for systemd, if it has started the process (Type=notify). Each has a readable status, which
// `systemctl status` shows.

// NotifyReady reports that the process serves: after its start, and after a reload.
func NotifyReady(status string) { notify(daemon.SdNotifyReady, "STATUS="+status) }

// NotifyReloading reports that the configuration is read again. NotifyReady must follow.
func NotifyReloading() {
	notify(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec(), "STATUS=reading the configuration again")
}

// NotifyStopping reports that the process will end within the given time.
func NotifyStopping(within time.Duration, status string) {
	notify(daemon.SdNotifyStopping, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", within.Microseconds()), "STATUS="+status)
}

// NotifyReplaced reports that another process is the service now. Its first WatchdogInterval starts anew.
func NotifyReplaced(pid int, status string) {
	notify(fmt.Sprintf("MAINPID=%d", pid), "STATUS="+status, daemon.SdNotifyWatchdog)
}

// NotifyAlive must be called before each WatchdogInterval ends.
func NotifyAlive() { notify(daemon.SdNotifyWatchdog) }

// WatchdogInterval returns how long systemd waits for NotifyAlive before it considers the process dead; 0: it
// does not watch.
func WatchdogInterval() time.Duration {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0
	}
	return interval
}

// notify sends a message as a whole. Errors are ignored: the process serves all the same.
func notify(lines ...string) {
	text := ""
	for _, l := range lines {
		if l != "" {
			text += l + "\n"
		}
	}
	_, _ = daemon.SdNotify(false, text)
}
