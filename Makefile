# `make` without a target lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test setup-tools demo check test test-scenarios lab stacks lint lint-types lint-rest golden format dashboards reference docs bench fuzz soak audit sbom clean requirements

# If it were set, each program that a test starts compiles the sources again.
unexport PYTHONDONTWRITEBYTECODE

# More threads of it would only wait, and busily.
export OPENBLAS_NUM_THREADS := 1

PY := .venv/bin/python
CODE := hatch_build.py analysis lab collector dashboards docs/conf.py docs/sojourn_docs tests
TEXTS := analysis collector dashboards docs lab nginx tests docker-compose.yml Makefile $(wildcard *.md)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

DONE := done, try: .venv/bin/sojourn report docs/examples/shop.jsonl.gz (an example), or your own log, or make demo

setup: ## install what the demo needs: nginx and njs by apt, Python packages into .venv
	@sh lab/setup.sh run
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "$(DONE)")

setup-test:
	@sh lab/setup.sh test

setup-tools:
	@sh lab/setup.sh tools

demo: setup ## run the short benchmark: real nginx and app servers, a table and a report (under 3 minutes; repeated on a busy machine)
	@.venv/bin/sojourn lab run benchmark --accept-void

# Many tests wait for servers, so two more run at a time than there are processors.
AT_ONCE := $(shell expr $$(nproc) + 2)

# Pytest compiles each file of tests once. Its processes begin together, and each would compile them all; before the first
# run of a checkout, two do it for all, each for its half.
COMPILED := tests/__pycache__/compiled
$(COMPILED):
	@for half in "tests/analysis" "tests --ignore tests/analysis"; do \
		$(PY) -m pytest -q --collect-only -p no:cacheprovider -p no:xdist $$half > /dev/null & done; wait; \
	mkdir -p $(@D) && touch $@

# What real servers time has the machine to itself.
test: setup-test ## run every test that this machine can run, and list the skipped ones
	@$(MAKE) --no-print-directory $(COMPILED)
	@status=0; \
	$(PY) -m pytest -n $(AT_ONCE) --dist loadfile -m "not scenario and not thorough and not alone" || status=1; \
	$(PY) -m pytest -m "alone and not scenario and not thorough" tests/lab tests/compose || status=1; exit $$status

# Rooms whose tests start no server and no other program for long.
UNIT := $(addprefix tests/analysis/,model queueing components timeline readers sources present estimation analyses)
# One room: a question, a folder of the analysis, of the lab or of the tests.
ROOM_CODE = $(wildcard $(addsuffix /$(ROOM),analysis/sojourn/analyses analysis/sojourn lab/sojourn_lab lab/sojourn_lab/experiments lab collector dashboards))
ROOM_TESTS = $(wildcard $(addsuffix /$(ROOM),tests/analysis/analyses tests/analysis tests/lab tests/lab/experiments tests/collector tests))

ifdef ROOM
check: ## run the rules and the tests of a room in seconds (ROOM=blame); without ROOM, lint and all unit tests (minutes)
	@test -n "$(ROOM_CODE)$(ROOM_TESTS)" || { echo "make check: there is no room $(ROOM)" >&2; exit 1; }
	@$(if $(ROOM_CODE),$(PY) -m ruff check $(ROOM_CODE) && $(PY) -m ruff format --check $(ROOM_CODE) && .venv/bin/codespell $(ROOM_CODE))
	@.venv/bin/lint-imports --no-cache --no-logo > /dev/null || .venv/bin/lint-imports --no-cache --no-logo
	@$(if $(ROOM_TESTS),$(PY) -m pytest -q -n 2 --dist loadfile -m "not scenario and not thorough and not alone" $(ROOM_TESTS))
else
check: lint
	@$(PY) -m pytest -q -n 2 --dist loadfile -m "not scenario and not thorough and not alone" $(UNIT)
endif

test-scenarios: setup-test ## run the tests that `make test` omits: scenarios on real servers, thorough tests (about 20 minutes)
	@$(PY) -m pytest -m "scenario or thorough"

lab: setup ## run every scenario of the lab in its short form (about half an hour)
	@.venv/bin/sojourn lab run --all --quick

stacks: setup-test ## measure seven usual stacks behind nginx (PHP, Python, Node, Go, Java, Ruby)
	@PYTHONPATH=lab $(PY) -m studies.stacks $(ARGS)

lint: setup-test ## check style, language (docs/language.txt), types, import contracts, shell syntax, generated files
	@$(MAKE) --no-print-directory --output-sync -j 2 lint-types lint-rest

lint-types:
	@$(PY) -m mypy

lint-rest:
	@$(PY) -m ruff check $(CODE)
	@$(PY) -m ruff format --check $(CODE)
	@.venv/bin/codespell $(TEXTS)
	@.venv/bin/lint-imports --no-cache --no-logo
	@for script in lab/setup.sh lab/images/*.sh lab/images/nginx/*.sh; do sh -n "$$script" || exit 1; done; bash -n .ci/run
	@PYTHONPATH=dashboards $(PY) -m sojourn_dashboards --check
	@PYTHONPATH=docs $(PY) -m sojourn_docs --check

golden: setup-test ## record the expected outputs of tests (TESTS=tests/store for some)
	@$(PY) -m pytest -q -p no:xdist --snapshot-update $(or $(TESTS),tests)

format: setup-test ## format the code
	@$(PY) -m ruff check --fix-only --quiet $(CODE)
	@$(PY) -m ruff format $(CODE)

dashboards: setup-test ## generate Grafana's JSON from dashboards/sojourn_dashboards
	@PYTHONPATH=dashboards $(PY) -m sojourn_dashboards

reference: setup-test ## generate the pages of the reference
	@PYTHONPATH=docs $(PY) -m sojourn_docs

docs: setup-test ## build the documentation as a static site in site/
	@$(PY) -m sphinx -q -W --keep-going -E -j 2 -b html -c docs -d site/.doctrees . site && echo site/index.html

bench: setup-tools ## measure speed, as ratios against peers in the same run (about an hour; ONLY=split,startup for some)
	@PYTHONPATH=lab $(PY) -m benchmarks $(if $(ONLY),--only $(ONLY)) $(if $(PUBLISH),--publish docs/reference)

fuzz: setup-tools ## look for inputs that break a parser (TARGET=log_lines SECONDS=3600 for one, longer)
	@PYTHONPATH=tests $(PY) -m fuzz $(TARGET) --seconds $(or $(SECONDS),60)

soak: setup ## run the whole stack for half an hour; check memory and completeness (MINUTES=30)
	@$(PY) -m sojourn_lab.experiments.endurance --minutes $(or $(MINUTES),30)

audit: setup-tools ## check every pinned dependency for known vulnerabilities
	@for file in run app dev tools; do .venv/bin/pip-audit --strict --progress-spinner off --disable-pip --require-hashes \
		-r requirements/$$file.txt || { echo "requirements/$$file.txt: a vulnerability, or no verdict" >&2; exit 1; }; done

sbom: setup-tools ## write a software bill of materials, CycloneDX, to dist/sojourn.cdx.json
	@mkdir -p dist && .venv/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type library \
		--output-reproducible --of JSON --sv 1.6 -o dist/sojourn.cdx.json requirements/run.txt && echo dist/sojourn.cdx.json

clean: ## remove generated files, runs and the virtual environment
	@rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis runs site dist build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# After a change of dependencies. Compiled for every Python and without addresses of any index.
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --prerelease if-necessary pyproject.toml --extra lab --extra mcp --extra serve --extra store --extra web --group build \
	--no-emit-package sojourn --no-emit-package sojourn-lab --no-emit-package sojourn-middleware
requirements:
	@$(COMPILE) --group dashboards --group docs --group lint --group notebooks --group test -o requirements/dev.txt
	@$(COMPILE) -c requirements/dev.txt -o requirements/run.txt
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --prerelease if-necessary --group audit --group fuzz -c requirements/dev.txt \
		-o requirements/tools.txt
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --prerelease if-necessary --group app -c requirements/dev.txt -o requirements/app.txt
