# Modules: the product, its codecs, libzstd through cgo, the hook for go-redis, and benchmarks of it and of other people's compressors.
MODULES = . codec codec/libzstd cinchredis bench/grpc bench/library examples/otel

.PHONY: build test race lint fuzz ci full

build: ; go build -o cinch ./cmd/cinch
test: ; rc=0; for m in $(MODULES); do test/steady $$m -- ./... || rc=1; done; exit $$rc
race: ; test/race
lint: ; test/lint $(MODULES)
fuzz: ; test/fuzz . codec codec/libzstd
ci: ; bash .ci/run
# What takes too long for ci, a line each.
full:
	go test ./test/differential -run 'TestLines|TestEveryCommand' -diff.lines -timeout 60m
	go test ./internal/plan -run PlanIsNearTheBest -held.values 600 -held.results $(CURDIR)/bench/results/plan-full.csv -timeout 120m
	go test ./test/grpc -run TestNoLosses -losses.rounds 6 -losses.calls 400 -timeout 60m
	go test ./test/http -http.long -timeout 30m
	go test ./test/effort -run Acceptance -budget.all -budget.window 15s -timeout 30m
	go test ./internal/rollout -rollout.full -timeout 180m
	go test ./test/tarantool -run TestVshardRebalancing -v -timeout 10m
	go test ./test/limits -run 'Metadata|PeakOf' -limits.long -timeout 20m
	go test ./examples/shadow -run TestExample -example.long -timeout 20m
	test/race all
	go test ./test/foreign -foreign.all -timeout 20m
	go test ./packaging/modules -install -timeout 30m
	test/servers install postgreslines
	go test ./test/postgres -run 'TestLines|TestHostileClients' -postgres.lines -postgres.crowd 500 -timeout 30m
	go test ./internal/shadow -run "PlantedFaults|EqualTargets" -planted.runs 500 -timeout 20m
	go test ./internal/rollout -run Cuts -rollout.cuts -v -timeout 180m
	dir=$$(mktemp -d) && test/tcl/fetch $$dir && test/tcl/run --src $$dir --mode force
	test/postgres/regress
	test/postgres/suites pgx
	test/postgres/suites asyncpg
	go test ./packaging/kubernetes -apiserver -timeout 60m
	packaging/release snapshot
	packaging/linux/try
	packaging/linux/systemd
	packaging/first-saving all
	packaging/reproducible --cold
