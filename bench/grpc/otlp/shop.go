package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Requests holds the messages that the collector received, in order of arrival.
type Requests struct{ Traces, Metrics, Logs [][]byte }

// customers is the number of concurrent customers.
const customers = 32

// services lists the shop's services.
var services = []string{"frontend", "cart", "checkout", "payment", "catalog"}

var errDeclined = errors.New("card declined by issuer")

// Record runs the shop for a number of visits and returns its requests.
func Record(ctx context.Context, visits int) (Requests, error) {
	c, err := startCollector()
	if err != nil {
		return Requests{}, err
	}
	s := &shop{servers: make(map[string]*service)}
	for i, name := range services {
		if err := s.open(ctx, c.addr, name, i); err != nil {
			return Requests{}, err
		}
	}
	s.visit(ctx, visits)
	err = s.close(ctx)
	return c.stop(), err
}

type shop struct{ servers map[string]*service }

// service is one HTTP server with its telemetry.
type service struct {
	*telemetry
	shop   *shop
	name   string
	server *httptest.Server
	client *http.Client
	tracer trace.Tracer
	orders metric.Int64Counter
	amount metric.Float64Histogram
	stock  metric.Int64UpDownCounter
}

func (s *shop) open(ctx context.Context, collector, name string, number int) error {
	t, err := newTelemetry(ctx, collector, name, number)
	if err != nil {
		return err
	}
	v := &service{telemetry: t, shop: s, name: name, tracer: t.traces.Tracer("shop/" + name)}
	options := []otelhttp.Option{otelhttp.WithTracerProvider(t.traces), otelhttp.WithMeterProvider(t.metrics), otelhttp.WithPropagators(propagation.TraceContext{})}
	v.client = &http.Client{Transport: otelhttp.NewTransport(&http.Transport{MaxIdleConnsPerHost: customers}, options...)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products/{id}", v.product)
	mux.HandleFunc("POST /cart/{user}/items", v.addToCart)
	mux.HandleFunc("POST /checkout/{user}", v.checkout)
	mux.HandleFunc("POST /payments", v.pay)
	v.server = httptest.NewServer(otelhttp.NewHandler(mux, name, options...))
	s.servers[name] = v
	return v.instruments()
}

func (v *service) instruments() (err error) {
	meter := v.metrics.Meter("shop/" + v.name)
	if v.orders, err = meter.Int64Counter("shop.orders", metric.WithDescription("Orders by product and result"), metric.WithUnit("{order}")); err != nil {
		return err
	}
	if v.amount, err = meter.Float64Histogram("shop.order.amount", metric.WithUnit("EUR")); err != nil {
		return err
	}
	v.stock, err = meter.Int64UpDownCounter("shop.stock", metric.WithDescription("Pieces in the warehouse"), metric.WithUnit("{piece}"))
	return err
}

func (s *shop) close(ctx context.Context) error {
	var all []func(context.Context) error
	for _, name := range services {
		s.servers[name].server.Close()
		all = append(all, s.servers[name].shutdown)
	}
	return forEach(ctx, all)
}

// visit runs all customers at once.
func (s *shop) visit(ctx context.Context, visits int) {
	var wg sync.WaitGroup
	for c := range customers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(13, uint64(c)))
			for range visits / customers {
				s.visitOnce(ctx, rng)
			}
		})
	}
	wg.Wait()
}

// visitOnce views some products and may buy one.
func (s *shop) visitOnce(ctx context.Context, rng *rand.Rand) {
	front := s.servers["frontend"]
	user := fmt.Sprintf("user-%05d", rng.IntN(20_000))
	product := int(rng.ExpFloat64()*40) % 400
	ctx, span := front.tracer.Start(ctx, "visit", trace.WithAttributes(
		attribute.String("enduser.id", user), attribute.String("session.id", fmt.Sprintf("%016x", rng.Uint64()))))
	defer span.End()
	for range 1 + rng.IntN(3) {
		front.call(ctx, "catalog", http.MethodGet, "/products/"+strconv.Itoa(product))
	}
	if rng.IntN(3) == 0 {
		front.call(ctx, "cart", http.MethodPost, fmt.Sprintf("/cart/%s/items?product=%d&quantity=%d", user, product, 1+rng.IntN(4)))
		front.call(ctx, "checkout", http.MethodPost, fmt.Sprintf("/checkout/%s?product=%d&amount=%.2f&card=%04d", user, product, 5+rng.ExpFloat64()*60, rng.IntN(10_000)))
	}
}

// call calls another service, and reports whether the response has a status below 300.
func (v *service) call(ctx context.Context, to, method, path string) bool {
	req, err := http.NewRequestWithContext(ctx, method, v.shop.servers[to].server.URL+path, nil)
	if err != nil {
		return false
	}
	resp, err := v.client.Do(req)
	if err != nil {
		v.log.ErrorContext(ctx, "call failed", "service", to, "path", path, "error", err)
		return false
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode >= 500 {
		v.log.WarnContext(ctx, "upstream answered with an error", "service", to, "path", path, "status", resp.StatusCode)
	}
	return resp.StatusCode < 300
}

func (v *service) product(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	_, span := v.tracer.Start(r.Context(), "SELECT products", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "postgresql"),
		attribute.String("db.namespace", "catalog"),
		attribute.String("db.query.text", "SELECT id, name, price, stock FROM products WHERE id = $1"),
		attribute.String("server.address", "pg-catalog-0.shop.svc"),
		attribute.Int("server.port", 5432)))
	defer span.End()
	n, _ := strconv.Atoi(id)
	if n%97 == 96 {
		span.SetStatus(codes.Error, "no rows in result set")
		v.log.InfoContext(r.Context(), "product not found", "product.id", id)
		http.NotFound(w, r)
		return
	}
	span.SetAttributes(attribute.Int("db.response.returned_rows", 1))
	io.WriteString(w, `{"id":`+id+`}`)
}

func (v *service) addToCart(w http.ResponseWriter, r *http.Request) {
	_, span := v.tracer.Start(r.Context(), "HSET", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", "HSET"),
		attribute.String("db.query.text", "HSET cart:"+r.PathValue("user")+" "+r.FormValue("product")+" ?")))
	span.End()
	v.log.InfoContext(r.Context(), "item added", "user.id", r.PathValue("user"), "product.id", r.FormValue("product"), "quantity", r.FormValue("quantity"))
	w.WriteHeader(http.StatusCreated)
}

func (v *service) checkout(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	span := trace.SpanFromContext(ctx)
	span.AddEvent("cart.priced", trace.WithAttributes(attribute.String("currency", "EUR"), attribute.String("amount", r.FormValue("amount"))))
	product, amount := attribute.String("product.id", r.FormValue("product")), r.FormValue("amount")
	result := "ok"
	if !v.call(ctx, "payment", http.MethodPost, "/payments?card="+r.FormValue("card")+"&amount="+amount) {
		result = "declined"
		w.WriteHeader(http.StatusPaymentRequired)
	}
	total, _ := strconv.ParseFloat(amount, 64)
	v.orders.Add(ctx, 1, metric.WithAttributes(product, attribute.String("result", result)))
	v.amount.Record(ctx, total, metric.WithAttributes(attribute.String("result", result)))
	v.stock.Add(ctx, -1, metric.WithAttributes(product, attribute.String("warehouse", "ams-"+strconv.Itoa(int(total)%5))))
	v.log.LogAttrs(ctx, slog.LevelInfo, "order placed", slog.String("user.id", r.PathValue("user")), slog.String("product.id", product.Value.AsString()),
		slog.Float64("amount", total), slog.String("result", result))
}

func (v *service) pay(w http.ResponseWriter, r *http.Request) {
	ctx, span := v.tracer.Start(r.Context(), "charge card", trace.WithAttributes(attribute.String("payment.provider", "acme-pay"), attribute.String("card.last4", r.FormValue("card"))))
	defer span.End()
	card, _ := strconv.Atoi(r.FormValue("card"))
	time.Sleep(time.Duration(card%7) * time.Millisecond)
	if card%23 == 0 {
		span.RecordError(errDeclined)
		span.SetStatus(codes.Error, errDeclined.Error())
		v.log.WarnContext(ctx, "payment declined", "card.last4", r.FormValue("card"), "error", errDeclined)
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	span.AddEvent("charged", trace.WithAttributes(attribute.String("payment.id", fmt.Sprintf("pay_%012x", uint64(card)*0x9E3779B97F4A7C15>>16))))
}
