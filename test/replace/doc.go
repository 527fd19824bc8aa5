// Package replace replaces gateways under the load of real clients, as an operator does it: with SIGUSR2,
// and with a restart while another process holds the sockets, as systemd does. Clients retry only as their
// libraries do by default. No operation fails, and no connection is refused.
package replace
