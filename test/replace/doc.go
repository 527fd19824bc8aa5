// Package replace has gateways replaced under the load of real clients, as an operator does it: by SIGUSR2, and by a restart while
// somebody else holds the sockets, as systemd does. Clients try again as their libraries do by themselves. No operation fails,
// and no connection is refused.
package replace
