package server

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/store/pack"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
)

// adminPage holds the admin server, its listener and its access rules.
type adminPage struct {
	server   *admin.Server
	listener net.Listener
	access   admin.Access
}

// adminAccess holds the credentials that the configuration's files give for the admin page.
type adminAccess struct {
	secure *tls.Config  // nil: without TLS
	token  *admin.Token // nil: no token is configured
}

// prepareAdmin reads the files of the admin page and registers its metrics.
func (p *Process) prepareAdmin() (err error) {
	if p.access, err = readAdminAccess(p.started, p.log); err != nil {
		return err
	}
	p.metrics = &gateway.Metrics{
		Requests: p.shared.requests, Replies: p.shared.replies, Codec: p.shared.engine.InFlight,
		Version: p.options.Version, Revision: p.options.Revision,
	}
	for _, r := range p.gateways {
		p.metrics.Gateways = append(p.metrics.Gateways, r.stats)
	}
	p.registry, err = p.register(p.metrics)
	return err
}

func readAdminAccess(cfg *config.Config, log *slog.Logger) (a adminAccess, err error) {
	if a.secure, err = cfg.AdminTLS(log); err != nil {
		return a, err
	}
	if file := cfg.AdminToken(); file != "" {
		a.token, err = admin.ReadToken(file, log)
	}
	return a, cfg.Invalid("admin.token_file", err)
}

func (p *Process) newAdminServer() *admin.Server {
	return admin.New(admin.Options{
		Access:  p.admin.access,
		Metrics: p.metrics, Gatherer: p.registry, Describe: p.describe, Ready: p.ready,
		Documents: append(p.shared.postgresDocuments(), admin.Document{Name: "whatif", Get: whatIfPage{p}.document}),
		Actions:   slices.Concat(p.shared.postgresActions(), p.packActions(), whatIfPage{p}.actions()),
		History:   p.history, Ledger: p.ledger, Memory: residentBytes,
		Messages: p.describeMessageKinds, PProf: p.options.PProf, Log: p.log,
	})
}

// register returns a registry of all the process's collectors.
func (p *Process) register(metrics *gateway.Metrics) (*prometheus.Registry, error) {
	dictionaries, packing := &dictionary.Metrics{Trainer: p.shared.trainer}, &pack.Metrics{}
	for _, r := range p.gateways {
		if r.auto != nil {
			dictionaries.Managers = append(dictionaries.Managers, dictionary.NamedManager{Gateway: r.name, Manager: r.auto})
		}
		if r.packer != nil {
			packing.Packers = append(packing.Packers, pack.NamedBackground{Gateway: r.name, Background: r.packer.Background})
		}
	}
	all := []prometheus.Collector{
		dictionaries, packing, &mongo.Metrics{Gateways: p.shared.mongo}, &link.Metrics{Endpoints: p.shared.links}, &lanes.Metrics{Gateways: p.shared.lanes},
		&postgres.Metrics{Gateways: p.shared.postgres},
		processMetrics{p.health, &p.draining, &p.reloaded, p.started.Certificates()},
		traceMetrics{p.shared.tracer},
		priceMetrics{p.started.Gateways, &p.current},
		whatIfMetrics{p.gateways},
		sharedMetrics{p.gateways},
	}
	if p.shared.grpcCache != nil {
		all = append(all, p.shared.grpcCache, &grpc.Metrics{Gateways: p.shared.grpc})
	}
	registry := prometheus.NewRegistry()
	errs := []error{metrics.Register(registry)}
	for _, c := range all {
		errs = append(errs, registry.Register(c))
	}
	return registry, errors.Join(errs...)
}

// listenAdmin opens the listener of the admin page. It logs a warning if the access rules exclude remote readers
// or let the token be sent unencrypted.
func (p *Process) listenAdmin() (*adminPage, error) {
	cfg, log, secure, token := p.started, p.log, p.access.secure, p.access.token
	l, err := listen(p.options, cfg.Admin.Listen, "admin", "admin")
	if err != nil {
		return nil, err
	}
	l = admin.Limit(l)
	access := admin.AccessOn(l.Addr(), token, cfg.Admin.Hosts)
	certificates := secure != nil && cfg.Admin.TLS.ClientCA != ""
	access.Credentials = access.Credentials || certificates
	switch {
	case !access.Open && token == nil && !certificates:
		log.Warn("the admin page is not on loopback: without admin.token_file or admin.tls.client_ca it only answers health probes, and serves no metrics", "address", l.Addr().String())
	case !access.Open && secure == nil:
		log.Warn("the admin page is not on loopback, and its token is sent unencrypted: set admin.tls", "address", l.Addr().String())
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	p.acceptsActions = token != nil || certificates
	return &adminPage{listener: l, access: access}, nil
}
