package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Since Redis 8.6 and Valkey 9.1 a server may take a client's certificate for its login
// (tls-auth-clients-user). Then every connection that shows the gateway's certificate begins as the
// gateway's own user. Its own connections may; those that serve clients must not, so they log out first:
// RESET makes a connection that of somebody who has shown no certificate. No ACL can deny it to a user, but a
// server's configuration may have renamed it.

// maxLoginAnswer is the longest answer about a login that is looked at.
const maxLoginAnswer = 512

// errLent reports a server whose connections can't be had without the gateway's login.
var errLent = errors.New("the server takes the gateway's certificate for a login, which its clients must not have, and RESET is refused")

// logOut makes a new connection nobody's. Where the server has no RESET the connection must be nobody's
// already, which the server has to say.
func logOut(ctx context.Context, conn net.Conn) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(askTimeout)
	}
	_ = conn.SetDeadline(deadline)
	in := bufio.NewReaderSize(conn, maxLoginAnswer)
	reset, err := askLine(conn, in, "*1\r\n$5\r\nRESET\r\n")
	if err != nil {
		return err
	}
	if reset != "+RESET" {
		if err := mustBeNobody(conn, in, reset); err != nil {
			return err
		}
	}
	if in.Buffered() > 0 {
		return fmt.Errorf("more than an answer to RESET: %q", reset)
	}
	return conn.SetDeadline(time.Time{})
}

// mustBeNobody has the server say that a connection on which RESET was refused is nobody's.
func mustBeNobody(conn net.Conn, in *bufio.Reader, reset string) error {
	who, err := askLine(conn, in, "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n")
	if err != nil || isNobody(who) {
		return err
	}
	if isDefault(who) { // by a certificate of that name, or as everybody
		login, err := askLine(conn, in, anyPassword)
		if err != nil || login == "+OK" {
			return err
		}
	}
	return fmt.Errorf("%w: %.100q; who is logged in: %.100q", errLent, reset, who)
}

// anyPassword logs in as the default user where that needs no password. It is none that anybody has.
const anyPassword = "*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$27\r\ncinch: no password is known\r\n"

// isNobody takes the answer to ACL WHOAMI. Servers that don't know it have no users.
func isNobody(who string) bool {
	return strings.HasPrefix(who, "-NOAUTH") || strings.HasPrefix(who, "-") && isUnknownCommand(who)
}

// isDefault takes it too: the refusal names who may not ask. No other user's name has a space.
func isDefault(who string) bool {
	return who == "default" || strings.HasPrefix(who, "-NOPERM User default has no permissions")
}

// askLine sends a request, and returns the line that answers it or the string.
func askLine(conn net.Conn, in *bufio.Reader, request string) (line string, err error) {
	if _, err = conn.Write([]byte(request)); err != nil {
		return "", err
	}
	for range 2 {
		b, err := in.ReadSlice('\n')
		if err != nil {
			return "", fmt.Errorf("no answer about the login by certificate: %w", err)
		}
		if line = strings.TrimRight(string(b), "\r\n"); !strings.HasPrefix(line, "$") {
			break
		}
	}
	return line, nil
}

// showsCertificate reports whether connections of that kind show one to the server.
func showsCertificate(config *tls.Config) bool {
	return config != nil && (len(config.Certificates) > 0 || config.GetClientCertificate != nil)
}
