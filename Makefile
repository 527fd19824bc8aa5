# Modules: the product, its codecs, libzstd through cgo, the hook for go-redis, and benchmarks of it and of other people's compressors.
MODULES = . codec codec/libzstd cinchredis bench/grpc bench/library examples/otel

.PHONY: build short test race lint fuzz ci full

build: ; go build -o cinch ./cmd/cinch
# Tests come in rings: see test/doc.go.
short: ; rc=0; for m in $(MODULES); do test/steady $$m -short -- ./... || rc=1; done; exit $$rc
test: build ; test/servers ready || exit; export CINCH_TEST_PROGRAM=$(CURDIR)/cinch; rc=0; for m in $(MODULES); do test/steady $$m -- ./... || rc=1; done; exit $$rc
race: ; test/race
lint: ; test/flaky check && test/lint $(MODULES)
fuzz: ; test/fuzz . codec codec/libzstd
ci: ; bash .ci/run
# SHARD=3/8 runs an eighth; what has passed on this tree is left out.
full: ; test/full $(if $(SHARD),--shard $(SHARD))
