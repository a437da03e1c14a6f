# Everything a newcomer needs; each target does its own set-up.  GNU make 3.81 is enough.

VENV := .venv
CLIENTS := .venv-clients
FUZZ := .venv-fuzz
LITELLM := .venv-litellm
NODE := tests/clients/node_modules
HEAVY := tests/clients/heavy/node_modules
PORT := 8080
# Of `make soak`.
SECONDS := 60
# Of `make mutants`: the same seed chooses the same ones.
SEED := 1
COUNT := 200
# The interpreter that makes the environments: the newest found unless given.
PYTHON :=
# Of `make run` and `make web`: hosts to intercept, joined by commas (api.moonshot.ai,llm.chutes.ai);
# or the URL of one host, of which the proxy is then the reverse proxy (https://api.moonshot.ai).
HOST :=
# Of the tests: one more than two cores, as many tests wait.  A worker takes one file after the
# other, so that few mitmdumps are started twice; those with processes come first.
WORKERS := 3
# The rooms below proxy/.
ROOMS := wire repair reply chat responses messages bridge inspect
# More arguments for pytest (make test ARGS="-k kimi") or mitmdump (make run ARGS="-v").
ARGS :=

# An environment whose interpreter has gone (an upgrade, a moved folder) is not ready.
$(foreach venv,$(VENV) .venv-run .venv-demo $(CLIENTS) $(FUZZ) $(LITELLM),$(shell \
	$(venv)/bin/python -c 'import pip' >/dev/null 2>&1 || rm -f $(venv)/.ready))

# What serves needs mitmproxy alone; the environment of the tests has it, too.
RUN := $(if $(wildcard $(VENV)/.ready),$(VENV),.venv-run)

# What the demonstration shows is OpenAI's client; the environment of the tests has it, too.
DEMO := $(if $(wildcard $(CLIENTS)/.ready),$(CLIENTS),.venv-demo)

# The command `dragoman` of this checkout.
DRAGOMAN = PYTHONPATH=addon exec $(RUN)/bin/python -m dragoman

.PHONY: help demo demo-web web run service upstream quick test pytest test-clients soak bench bench-smoke fuzz mutants lint fixtures pictures clean

help:
	@echo 'make demo          see both jobs at work: a replayed upstream, mitmdump, a real client'
	@echo 'make demo-web      the same in mitmweb: look at flows that were repaired and bridged'
	@echo 'make run           start the proxy for daily use (PORT=8080 HOST=api.moonshot.ai)'
	@echo 'make web           the same in mitmweb'
	@echo 'make service       print what keeps it on: a systemd unit or a launchd plist'
	@echo 'make upstream      the replaying upstream of the examples, on port 9000'
	@echo 'make quick         lint and the quick tests of all but proxy/, in a minute (see CONTRIBUTING.md)'
	@echo 'make test          lint and every test but those of the heavy clients'
	@echo 'make pytest        the same tests without lint'
	@echo 'make test-clients  install Codex CLI, Claude Code, kimi-code, opencode (some 2 GB) and test'
	@echo 'make soak          200 streams at once for a minute (SECONDS=600: longer)'
	@echo 'make bench         what it costs, against mitmproxy alone and LiteLLM'
	@echo 'make fuzz          atheris, five minutes a target (ARGS="--seconds 60 scanner")'
	@echo 'make mutants       do the tests notice changes of the code? (SEED=1 COUNT=200 ARGS=wire)'
	@echo 'make lint          ruff and mypy'
	@echo 'make fixtures      write the expected results of all fixtures anew'
	@echo 'make pictures      take the pictures of the README anew (needs Chromium)'
	@echo 'make clean         remove what the other targets installed'

demo: $(RUN)/.ready $(DEMO)/.ready
	@$(RUN)/bin/python -m tests.demo $(DEMO)/bin/python

demo-web: $(RUN)/.ready
	@$(RUN)/bin/python -m tests.web.demo

run: $(RUN)/.ready
	@$(DRAGOMAN) run $(if $(HOST),'$(HOST)') --port $(PORT) $(ARGS)

web: $(RUN)/.ready
	@$(DRAGOMAN) web $(if $(HOST),'$(HOST)') --port $(PORT) $(ARGS)

service: $(RUN)/.ready
	@$(DRAGOMAN) service $(if $(HOST),'$(HOST)') --port $(PORT) $(ARGS)

upstream: $(RUN)/.ready
	@exec $(RUN)/bin/python -m fixtures.server --port 9000

# mypy keeps what it has found of files that have not changed.
quick: export PYTHONDONTWRITEBYTECODE :=
quick: lint
	$(VENV)/bin/python -m pytest -q -n 2 --dist worksteal -m 'not slow' --quick $(ARGS) \
		tests/test_rooms.py $(addprefix tests/,$(ROOMS))

test: lint pytest

# To compile all tests and the addon in each process takes longer than many tests do.
pytest: export PYTHONDONTWRITEBYTECODE :=
pytest: $(VENV)/.ready $(CLIENTS)/.ready node-clients
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		-m 'not heavy' $(ARGS)

test-clients: $(VENV)/.ready $(CLIENTS)/.ready node-clients heavy-clients
	$(VENV)/bin/python -m pytest -m heavy $(ARGS)

soak: $(VENV)/.ready
	$(VENV)/bin/python -m tests.soak --seconds $(SECONDS) $(ARGS)

bench: $(VENV)/.ready $(LITELLM)/.ready
	$(VENV)/bin/python -m tests.bench $(ARGS)

bench-smoke: $(VENV)/.ready
	$(VENV)/bin/python -m tests.bench --smoke

fuzz: $(FUZZ)/.ready
	$(FUZZ)/bin/python -m tests.fuzz $(ARGS)

mutants: $(VENV)/.ready
	$(VENV)/bin/python -m tests.mutants --seed $(SEED) --count $(COUNT) $(ARGS)

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

fixtures: $(VENV)/.ready
	$(VENV)/bin/python -m fixtures.regenerate

pictures: $(VENV)/.ready
	PYTHONPATH=addon $(VENV)/bin/python -m tests.web.pictures

clean:
	rm -rf .venv* $(NODE) $(HEAVY) .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is the last thing written, so what was interrupted is made again from the start.  A
# second make that wants the same folder waits for the first, and then has nothing to do.
define make-venv
	@until ln -s $$$$ $(@D).lock 2>/dev/null; do \
		kill -0 "$$(readlink $(@D).lock)" 2>/dev/null || rm -f $(@D).lock; sleep 1; \
	done; trap 'rm -f $(@D).lock' EXIT; \
	if [ -e $@ ] && [ ! $< -nt $@ ]; then exit 0; fi; \
	python="$(PYTHON)"; \
	python="$${python:-$$(sh .ci/find-python)}" || exit 1; \
	[ -n "$$python" ] || exit 1; \
	echo "Installing $< into $(@D), for $$python (half a minute or more):"; \
	rm -rf $(@D) && "$$python" -m venv $(@D) && \
	{ $(@D)/bin/python -m pip install --disable-pip-version-check -r $< || touch $(@D)/failed; } | \
	awk '/^Collecting/ { sub(/[^A-Za-z0-9_.-].*|[<>=!~].*/, "", $$2); printf "%s ", $$2; fflush() } \
	END { print "" }'; \
	[ -x $(@D)/bin/python ] && [ ! -e $(@D)/failed ] && touch $@
endef

.venv-run/.ready: addon/requirements.txt
	$(make-venv)

$(VENV)/.ready: tests/requirements.txt
	$(make-venv)

.venv-demo/.ready: tests/clients/demo-requirements.txt
	$(make-venv)

$(CLIENTS)/.ready: tests/clients/requirements.txt
	$(make-venv)

$(FUZZ)/.ready: tests/fuzz/requirements.txt
	$(make-venv)

$(LITELLM)/.ready: tests/bench/requirements.txt
	$(make-venv)

.PHONY: node-clients heavy-clients
ifneq ($(shell command -v npm 2>/dev/null),)
node-clients: $(NODE)/.ready
heavy-clients: $(HEAVY)/.ready
else
node-clients heavy-clients:
	@echo 'npm is not here: the tests with Node clients will not run (see the end of the report)'
endif

%/node_modules/.ready: %/package-lock.json %/package.json
	cd $* && npm ci --loglevel=error
	@touch $@
