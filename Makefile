# Modules: the product, its codecs, libzstd through cgo, the hook for go-redis.
MODULES = . codec codec/libzstd clients/go/cinchredis
# Programs beside the product, modules too: their tests run with its own, but lint only vets them.
PROGRAMS = bench bench/grpc bench/library examples examples/otel

.PHONY: build run short test race lint fuzz ci full

build: ; go build -o cinch ./cmd/cinch
# Cinch on its embedded store, with a small load. Ctrl-C ends it. It is there sooner without Parquet.
run: ; go build -tags noparquet -o . ./cmd/cinch ./examples/first && ./first --cinch ./cinch
# Tests come in rings: see test/doc.go.
short: ; scripts/steady $(MODULES) $(PROGRAMS) -short -- ./...
# Without the commit in it the program is the same, and so are results that are kept, until its code changes.
test: ; scripts/servers ready && go build -buildvcs=false -o cinch ./cmd/cinch && CINCH_TEST_PROGRAM="$(CURDIR)/cinch" scripts/steady $(MODULES) $(PROGRAMS) -- ./...
race: ; scripts/race
lint: ; scripts/flaky check && scripts/lint $(MODULES) && for module in $(PROGRAMS); do go vet -C $$module ./... || exit 1; done
fuzz: ; scripts/fuzz . codec codec/libzstd
ci: ; bash .ci/run
# SHARD=3/8 runs an eighth; what has passed on this tree is left out.
full: ; scripts/full $(if $(SHARD),--shard $(SHARD))
