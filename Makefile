# Everything needs Rust; what starts a real control plane needs Go as well, for its first build.
CARGO ?= cargo
# The tests that need no API server: those whose sources never start a control plane.
FAST_TESTS := $(shell for test in tests/*.rs tests/*/main.rs; do test=$${test%/main.rs}; \
	grep -rqE 'ControlPlane::(start|shared)' $$test || printf ' --test %s' "$$(basename $${test%.rs})"; done)

.PHONY: help run test test-fast kube lint fmt deny bench

help: ## What there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: ## A cluster on this machine with Capstan in it, and a short tour; CONTEXT=name takes a cluster of yours instead
	@$(CARGO) build --quiet --package capstan --bin capstan --package capstan-sandbox --bin capstan-sandbox
	@exec $(CARGO) run --quiet --package capstan-sandbox -- run $(if $(CONTEXT),--context '$(CONTEXT)') $(if $(ADDRESS),--address '$(ADDRESS)')

test: kube ## All tests, against a real API server
	$(CARGO) test --workspace --locked

test-fast: ## The tests that need no API server
	$(CARGO) test --locked --package capstan-core --package capstan-sandbox --lib --bins
	$(CARGO) test --locked --package capstan --lib --bins $(FAST_TESTS)

kube: ## The control plane's binaries: found, or built once
	@$(CARGO) run --quiet --locked --package capstan-sandbox -- kube

lint: ## Format and lints, as CI judges them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

fmt: ## Format everything
	$(CARGO) fmt --all

deny: ## Licences, advisories and sources of the dependencies (needs cargo-deny)
	$(CARGO) deny check

bench: ## Ratios against a null server, into target/bench/summary.json
	$(CARGO) build --release --locked --package capstan --bin capstan --package capstan-sandbox --bin capstan-sandbox
	$${CARGO_TARGET_DIR:-target}/release/capstan-sandbox bench
