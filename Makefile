# Three modules: the product, its codecs, and libzstd through cgo.
MODULES = . codec codec/libzstd

.PHONY: build test race lint fuzz ci

build: ; go build -o cinch ./cmd/cinch
test: ; set -e; for m in $(MODULES); do (cd $$m && go test -timeout 20m ./...); done
race: ; set -e; for m in $(MODULES); do (cd $$m && go test -race -timeout 20m $$(go list ./... | grep -v /test/)); done
lint: ; test/lint $(MODULES)
fuzz: ; test/fuzz $(MODULES)
ci: ; bash .ci/run
