package main

import (
	"crypto/tls"

	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/config"
)

// listenAdmin opens the listener of the admin page, and says who may read there.
func (p *process) listenAdmin(cfg *config.Config) (access admin.Access, err error) {
	secure, err := cfg.AdminTLS(p.log)
	if err != nil {
		return access, withCode(exitConfig, err)
	}
	var token *admin.Token
	if file := cfg.AdminToken(); file != "" {
		if token, err = admin.ReadToken(file, p.log); err != nil {
			return access, withCode(exitConfig, err)
		}
	}
	l, err := listen(cfg.Admin.Listen, "admin")
	if err != nil {
		return access, err
	}
	access = admin.AccessOn(l.Addr(), token, cfg.Admin.Hosts)
	certificates := secure != nil && cfg.Admin.TLS.ClientCA != ""
	switch {
	case !access.Open && token == nil && !certificates:
		p.log.Warn("the admin page is not on loopback: without admin.token_file or admin.tls.client_ca it answers probes only, and no metrics", "address", l.Addr().String())
	case !access.Open && secure == nil:
		p.log.Warn("the admin page is not on loopback, and its token travels as it is: give it admin.tls", "address", l.Addr().String())
	}
	p.adminListener = l
	if secure != nil {
		p.adminListener = tls.NewListener(l, secure)
	}
	return access, nil
}
