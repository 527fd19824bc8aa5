# Modules: the product, its codecs, libzstd through cgo, and other people's compressors.
MODULES = . codec codec/libzstd bench/grpc

.PHONY: build test race lint fuzz ci

build: ; go build -o cinch ./cmd/cinch
test: ; rc=0; for m in $(MODULES); do (cd $$m && go test -timeout 20m ./...) || rc=1; done; exit $$rc
race: ; test/race
lint: ; test/lint $(MODULES)
fuzz: ; test/fuzz . codec codec/libzstd
ci: ; bash .ci/run
