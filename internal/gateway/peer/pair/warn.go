package pair

import "log/slog"

// WarnOfStrangers tells an operator what it means that a gateway has peers, and asks clients for
// no certificates (client_ca).
func WarnOfStrangers(log *slog.Logger) {
	log.Warn("peers without tls.client_ca: clients that reach the gateway may fetch the dictionaries of replies, which hold pieces of them")
}
