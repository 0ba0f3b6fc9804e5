# Two commands for a newcomer: `make demo` and `make test`. Needs Python >= 3.11, git and make.
# Everything else comes from PyPI and the Go module proxy; see kwok/binaries for the control plane.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: help setup demo check test flake lint style types units lock chart web clean

PYTHON ?= python3
# The machine's uv, else our own from PyPI.
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
export UV

STAMP := .venv/.installed
PACKAGES := surgekit cluster_model scheduler_extender combofunc function_gateway limit_allocator burst_plane node_speed_probe cluster_autoscaler_hook hpa_replacement cluster_view kwok experiments tests

# From the distribution, as program:package. Without HAProxy the tests of live traffic skip, without the second line
# those of real nodes, without the third those of images, without the fourth those of cgroup v2, without the fifth those
# of pages in a browser. --no-remove: a machine's own Docker stays.
DEBIAN := haproxy:haproxy \
	containerd:containerd runc:runc iptables:iptables /usr/lib/cni/bridge:containernetworking-plugins \
	buildah:buildah mmdebstrap:mmdebstrap \
	qemu-system-x86_64:qemu-system-x86 \
	chromium:chromium
define INSTALL
{ PATH="$$PATH:/usr/sbin:/sbin"; lacking() { \
	for pair in $(DEBIAN); do command -v "$${pair%%:*}" >/dev/null || echo "$${pair#*:}"; done; }; \
if [ -n "$$(lacking)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	(apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
		--no-remove $$(lacking)) >/dev/null 2>&1 || true; \
fi; \
for package in $$(lacking); do echo "missing: apt-get install $$package (as root)"; done; \
[ -n "$$(lacking)" ] || echo "all there"; }
endef

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP) ## prepare everything, start nothing
	@echo "control-plane binaries:"
	@.venv/bin/python -m kwok.binaries | sed 's/^/  /'
	@echo "packages of the distribution:"
	@$(INSTALL) | sed 's/^/  /'
	@echo "command line:"
	@echo "  .venv/bin/surgekit"

demo: setup ## watch the extender place pods on an emulated cluster
	.venv/bin/surgekit demo

# Types in one process and unit tests in the others: the tests do not wait for mypy, which has one core.
check: style ## style, types, layers and unit tests; starts nothing (3 minutes)
	@$(MAKE) --no-print-directory --jobs=2 types units

units: $(STAMP)
	.venv/bin/pytest -n auto --dist worksteal -q -m "not lab"

test: setup check ## everything that must hold: check, then a real control plane
	.venv/bin/pytest $(LAB)
	.venv/bin/pytest $(REAL_NODE)

# Labs mostly wait, so four files at a time; each worker has labs of its own. Files in the order of
# tests/conftest.py: xdist's own, by number of tests, takes tests/manifests apart and ends with the longest tests.
LAB := -m "lab and not real_node" -n 4 --dist loadfile --no-loadscope-reorder
# Real nodes do the work they measure: one at a time, after the others.
REAL_NODE := -m real_node

# Hours. A run that has finished at this commit is not repeated.
N ?= 5
LOADED ?= 0
flake: setup ## the lab tests N times on quiet cores, LOADED times on busy ones; lists what was not always green
	.venv/bin/python -m tests.flake --runs $(N) --loaded-runs $(LOADED) -- $(LAB)

lint: style types ## style, types and layers

style: $(STAMP)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports

types: $(STAMP)
	.venv/bin/mypy $(PACKAGES)

# Hashes and versions only: an index host in the lock would tie everybody to it.
lock: | $(if $(filter .uv/%,$(UV)),.uv/bin/uv) ## renew requirements.lock from pyproject.toml
	$(UV) pip compile pyproject.toml --all-extras --group dev --generate-hashes --python-version 3.11 --universal \
		--no-emit-index-url --custom-compile-command "make lock" --upgrade -o requirements.lock

chart: $(STAMP) ## write the Helm chart, made of charts/ and manifests/, to out/charts/surgekit
	.venv/bin/python -m tests.packaging.chart out/charts/surgekit

# Needs Node.js. What it makes is committed, so that users do not; tests/cluster_view/test_build.py compares.
web: ## build the page of `surgekit ui`, cluster_view/web, into cluster_view/static
	cd cluster_view/web && npm ci --no-audit --no-fund && npm run build

clean: ## remove what was made here; the cache of built binaries stays
	rm -rf .venv .uv out cluster_view/web/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build *.egg-info

$(STAMP): requirements.lock pyproject.toml | $(if $(filter .uv/%,$(UV)),.uv/bin/uv)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python >= 3.11 is needed, this is {sys.version}")'
	$(UV) venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	$(UV) pip install --python .venv/bin/python --require-hashes -r requirements.lock
	$(UV) pip install --quiet --python .venv/bin/python --no-deps --editable .
	@touch $@

.uv/bin/uv:
	@echo "uv is not on PATH: installing it from PyPI into .uv"
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7
