# Everything needs Rust; what starts a real control plane needs Go as well, for its first build.
CARGO ?= cargo
BIN := $(or $(CARGO_TARGET_DIR),target)/debug
PROFILE ?= fast
SIMULATE := $(or $(CARGO_TARGET_DIR),target)/$(PROFILE)/capstan-sandbox simulate
SEEDS ?= 100000
FROM ?= 0
# The tests that need no API server: those whose sources never start a control plane.
FAST_TESTS := $(shell for test in tests/*.rs tests/*/main.rs; do test=$${test%/main.rs}; \
	grep -rqE 'ControlPlane::(start|shared)' $$test || printf ' --test %s' "$$(basename $${test%.rs})"; done)

.PHONY: help build run test test-long test-fast simulate simulator kube lint fmt deny bench fuzz

help: ## What there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: build ## A cluster on this machine with Capstan in it, and a short tour; CONTEXT=name takes a cluster of yours instead
	@exec $(BIN)/capstan-sandbox run $(if $(CONTEXT),--context '$(CONTEXT)') $(if $(ADDRESS),--address '$(ADDRESS)')

# Both in one call: built apart, their common dependencies would be built twice, with different features.
build:
	@$(CARGO) build --locked --package capstan --package capstan-sandbox --bins

test: kube simulator ## All tests, against a real API server; every single fault in every simulated scenario
	$(CARGO) test --workspace --locked
	$(SIMULATE) --exhaustive

simulate: simulator ## Attack the controllers in simulated control planes: SEEDS=100000 FROM=0; PROFILE=release for millions
	$(SIMULATE) --digest --seeds 16 | diff sandbox/tests/simulation/traces.txt -
	$(SIMULATE) --from $(FROM) --seeds $(SEEDS)
	$(SIMULATE) --scenario melee --from $(FROM) --seeds $$((($(SEEDS) + 19) / 20))

simulator:
	@$(CARGO) build --locked --profile $(PROFILE) --package capstan-sandbox --bin capstan-sandbox

test-long: kube ## What make test does for a minute, for the ten minutes of the requirement
	CAPSTAN_STEADY_SECONDS=600 $(CARGO) test --locked --package capstan --test rollout -- a_steady_state --nocapture

test-fast: ## The tests that need no API server
	$(CARGO) test --locked --package capstan-core --package capstan-sandbox --lib --bins
	$(CARGO) test --locked --package capstan --lib --bins $(FAST_TESTS)

kube: build ## The control plane's binaries: found, or built once
	@$(BIN)/capstan-sandbox kube

lint: ## Format and lints, as CI judges them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

fmt: ## Format everything
	$(CARGO) fmt --all

deny: ## Licences, advisories and sources of the dependencies (needs cargo-deny)
	$(CARGO) deny check

bench: ## Ratios against a null server, into target/bench/summary.json
	$(CARGO) build --release --locked --package capstan --bin capstan --package capstan-sandbox --bin capstan-sandbox
	$(or $(CARGO_TARGET_DIR),target)/release/capstan-sandbox bench

RUNS ?= 20000
fuzz: ## Every fuzz target, RUNS executions each; `make test` runs some 23000 in all
	FUZZ_RUNS=$(RUNS) $(CARGO) test --quiet --locked --package capstan-core --package capstan --test fuzz -- --nocapture
