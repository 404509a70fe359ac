# Two commands on a fresh machine: `make demo` and `make test`. Both install into .venv, from hashed locks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Another PYTHON= than the environment's own: the environment is made again.
ifneq ($(filter command environment,$(origin PYTHON)),)
PREFIX := import sys; print(sys.base_prefix, sys.version_info[:2])
ifeq ($(shell [ -x $(BIN)/python ] && [ "$$($(PYTHON) -c '$(PREFIX)')" != "$$($(BIN)/python -c '$(PREFIX)')" ] && echo other),other)
$(info $(VENV) was made with another Python than $(PYTHON): it is made again)
$(shell rm -rf $(VENV))
endif
endif
PIP := $(BIN)/pip --disable-pip-version-check --quiet
# pip compiles one file after another, this as many as there are CPUs. Some packages have files that are no valid Python.
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
# Part of the package: `carico up --control-plane real` installs Go from it if there is none.
GO_LOCK := local/src/carico_local/binaries/go
MEMBERS := libs/carico_core services/agent services/aggregator services/scheduler services/auth services/recommender services/rescheduler services/web local twin cli

# What each set was installed from: a changed lock or pyproject installs it again.
LOCAL_PROJECTS := $(foreach m,$(MEMBERS),$(m)/pyproject.toml)

.PHONY: demo test test-system test-upstream check bench soak reference chart wheels sbom pictures install install-dev lock clean help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# PODS, NODES, WORKLOAD, ESTIMATOR and CEILING go to `carico demo --...`; ARGS takes any further flag.
DEMO_FLAGS = $(if $(PODS),--pods $(PODS)) $(if $(NODES),--nodes $(NODES)) $(if $(WORKLOAD),--workload $(WORKLOAD)) \
	$(if $(ESTIMATOR),--estimator $(ESTIMATOR)) $(if $(CEILING),--ceiling $(CEILING)) $(if $(NAME),--name $(NAME)) $(ARGS)

demo: install ## a local cluster, a job on it, and a report (PODS= NODES= WORKLOAD=pi|train|mixed CEILING=)
	@$(BIN)/carico demo $(strip $(DEMO_FLAGS))

# WORKERS is how many tests run at the same time (default: CPUs + 3); ARGS goes to pytest instead of the tier.
test: install-dev ## every test that needs no system software (WORKERS= ARGS="tests/unit -k words")
	@$(BIN)/python -m $(if $(ARGS),pytest $(ARGS),tests.tools.tiers parallel serial $(if $(WORKERS),--workers $(WORKERS)))

test-system: install-dev ## Docker, kubelets, compose, a browser; CARICO_TEST_SYSTEM=1 allows fetching and starting them
	@$(BIN)/python -m tests.tools.tiers system compose

test-upstream: install-dev ## long tests, on demand
	@$(BIN)/python -m tests.tools.tiers upstream

check: install-dev ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: install-dev ## the benchmarks' table; never part of a pass or fail
	@$(BIN)/python -m bench $(ARGS)

# SEED chooses the faults and their order; MINUTES is how long they last; SERVERS is how many of NATS there are, 1 or 3.
soak: install-dev ## faults at random on a whole local cluster, and a check of what became of its Pods (SEED= MINUTES= SERVERS=)
	@$(BIN)/python -m tests.chaos.nemesis.soak $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SERVERS),--servers $(SERVERS))

reference: install-dev ## write the tables of docs/metrics.md, docs/settings.md and docs/security.md from the code
	@$(BIN)/python -m carico_cli.reference

chart: install-dev ## write the Helm chart (deploy/helm/carico) from deploy/k8s
	@$(BIN)/python -m tests.tools.make.helm_chart

wheels: install ## the packages of `pip install carico`, into var/wheels
	@$(PIP) wheel --no-deps --no-build-isolation --no-index --wheel-dir var/wheels $(addprefix ./,$(MEMBERS) distribution)

sbom: install-dev ## what the images contain (CycloneDX), into var/sbom
	@$(BIN)/python -m tests.tools.make.sbom var/sbom

pictures: install-dev ## the pictures and transcripts of the docs; on an idle machine
	@$(BIN)/python -m tests.tools.make.pictures

install: $(VENV)/.installed-demo ## what the demo needs, into .venv
install-dev: $(VENV)/.installed-dev ## what the checks and tests need, into .venv

# venv installs pip last: an environment without it is broken, for example because Debian's python3-venv is missing.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"CARICO needs Python 3.11 or later; {sys.executable} is {v[0]}.{v[1]}. Name another: make PYTHON=/path/to/python3.12 ...")'
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); echo "the environment could not be created: on Debian and Ubuntu, run apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.installed-demo: requirements/demo.txt $(LOCAL_PROJECTS) | $(VENV)/bin/pip
	@echo "installing CARICO into $(VENV) (once; about a minute, with nothing to see)"
	@$(PIP) install --no-compile --require-hashes -r requirements/demo.txt
	@$(COMPILE)
	@$(PIP) install --no-deps --no-build-isolation $(foreach m,$(MEMBERS),-e $(m))
	@touch $@

$(VENV)/.installed-dev: requirements/dev.txt $(VENV)/.installed-demo
	@echo "installing the development tools into $(VENV) (once)"
	@$(PIP) install --no-compile --require-hashes -r requirements/dev.txt
	@$(COMPILE)
	@touch $@

lock: ## write the hashed locks from requirements/*.in (needs uv)
	@for set in demo dev image compose build nats; do uv pip compile --quiet --no-header --universal --python-version 3.11 --generate-hashes requirements/$$set.in -o requirements/$$set.txt; done
	@uv pip compile --quiet --no-header --universal --python-version 3.11 --generate-hashes $(GO_LOCK).in -o $(GO_LOCK).txt

clean: ## remove the environment and files that runs left in the tree
	@rm -rf $(VENV) var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
