# `make demo` and `make test` set up what they need in .venv and run; `make help` lists the rest.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check -q
NATIVE := $(wildcard native/*.c native/*.h native/*/*.c native/*/*.h native/*.py native/CMakeLists.txt) $(wildcard sitecustomize/*) pyproject.toml

# where it is set, each of some hundred jobs and analyses would compile our sources again
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test tests types style test-slow test-robustness fuzz test-browser vendor lint format check-python wheel wheel-test test-versions test-torch-versions test-cupti test-aarch64 sanitize bench docs picture clean

help: ## List the targets.
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 24

demo: $(VENV)/.frameworks ## Train a small network with MindSpore on CPU, profiled by the variable alone, and show the summary.
	MS_PROFILER_OPTIONS='{"start": true, "output_path": "./data"}' $(PY) examples/train_convnet.py
	@echo
	@directory=$$(ls -td data/*_ascend_ms | head -n 1); $(VENV)/bin/ms-profiler summary "$$directory"

# The check of types takes 20 s of one processor; while it runs, the tests use the others.
test: style ## Run the linters and every test that fits into a few minutes.
	$(MAKE) -j2 types tests

tests: $(VENV)/.tests
	$(PY) -m pytest -n auto --dist worksteal --durations 15 $(PYTEST_ARGS)

test-slow: $(VENV)/.tests $(VENV)/.trainers ## Run the tests that take minutes each.
	$(PY) -m pytest -m slow $(PYTEST_ARGS)

test-robustness: $(VENV)/.tests $(VENV)/.robustness ## Run jobs beside other tools, and the tests of packages, profiled and bare.
	$(PY) -m pytest -n 2 tests/robustness $(PYTEST_ARGS)

# KEEP=DIR keeps the inputs that fail.
EXECUTIONS ?= 20000
PARSED     ?= 100000
SEED       ?= 20
fuzz: $(VENV)/.tests ## Read EXECUTIONS damaged results, traces, databases and other files; parse PARSED contents of each kind.
	MS_PROFILER_EXECUTIONS=$(EXECUTIONS) MS_PROFILER_PARSED=$(PARSED) MS_PROFILER_SEED=$(SEED) $(PY) -m pytest -n auto tests/robustness/test_fuzzing.py $(PYTEST_ARGS)

# A test says when it skips for lack of Chromium or of data (MS_PROFILER_TEST_DATA, MS_PROFILER_TEST_GPU_TRACES).
test-browser: $(VENV)/.tests ## Look at every view of the page in Chromium, with real jobs, and take the pictures of docs/.
	MS_PROFILER_PICTURES=docs $(PY) -m pytest -n 0 -v -m 'slow or not slow' tests/test_page_browser.py $(PYTEST_ARGS)

# UPLOT=1.6.33 for another version; FROM=FILE for an archive that is here already.
UPLOT  := 1.6.32
FROM   := https://github.com/leeoniya/uPlot/archive/refs/tags/$(UPLOT).tar.gz
VENDOR := agent/ms_profiler/analysis/page/static/vendor
vendor: ## Fetch the library of the page anew, with its licence, and write the checksums; needs no node.
	rm -rf build/vendor && mkdir -p build/vendor
	if [ -f '$(FROM)' ]; then cp '$(FROM)' build/vendor/uPlot.tar.gz; else curl -fsSL '$(FROM)' -o build/vendor/uPlot.tar.gz; fi
	tar -xzf build/vendor/uPlot.tar.gz -C build/vendor --strip-components 1
	cp build/vendor/dist/uPlot.iife.min.js build/vendor/dist/uPlot.min.css $(VENDOR)/
	cp build/vendor/LICENSE $(VENDOR)/uPlot.LICENSE
	cd $(VENDOR) && sha256sum uPlot.* > SHA256SUMS
	git --no-pager diff --stat $(VENDOR)

lint: style types ## Check style, types and C formatting.

types: $(VENV)/.tests
	$(VENV)/bin/mypy

style: $(VENV)/.tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run -Werror native/*.c native/*.h native/*/*.c native/*/*.h tests/native/*.[ch] tests/fakes/*.c tests/fakes/*.h

format: $(VENV)/.tests ## Rewrite the sources in the project's style.
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i native/*.c native/*.h native/*/*.c native/*/*.h tests/native/*.[ch] tests/fakes/*.c tests/fakes/*.h

wheel: $(VENV)/.tests ## Build the abi3 wheel with a manylinux tag, into wheelhouse/.
	native/wheel.sh $(PY)

wheel-test: wheel ## Install the wheel where there is no compiler, on every CPython found, and record with it.
	native/wheel_test.sh wheelhouse

# VERSIONS='2.9.0 2.8.0' for some, WRITE=docs/compatibility.md for the table there, KEEP=1 keeps the environments, of 3 GB each.
test-versions: wheel ## Train with every MindSpore 2 on PyPI, profiled and not, in an environment for each: an hour.
	$(PY) tests/versions.py $(VERSIONS) $(if $(KEEP),--keep) $(if $(WRITE),--write $(WRITE))

# VERSIONS, WRITE and KEEP as above.
test-torch-versions: wheel ## Train with the last of each minor version of PyTorch from 2.4 on: ten minutes each.
	$(PY) tests/torch_versions.py $(VERSIONS) $(if $(KEEP),--keep) $(if $(WRITE),--write $(WRITE))

# VERSIONS, WRITE and KEEP as above; one takes 100 MB for as long as it is tried.
test-cupti: $(VENV)/.tests ## Try each minor version of CUPTI from 11.8 on, without a driver: half a minute each.
	$(PY) tests/cupti_versions.py $(VERSIONS) $(if $(KEEP),--keep) $(if $(WRITE),--write $(WRITE))

# Needs Debian's apt-get and dpkg-deb, and changes nothing outside of build/aarch64, which takes 3 GB.
test-aarch64: $(VENV)/.tests ## Build the wheel for aarch64, and run the recorder and a job of PyTorch there, emulated by qemu.
	native/aarch64.sh $(PY)

sanitize: ## Run the recorder under ASan, UBSan and TSan.
	native/sanitize.sh

bench: $(VENV)/.frameworks ## Print what profiling costs, as ratios.
	$(PY) benchmarks/startup.py
	$(PY) benchmarks/span.py
	$(PY) benchmarks/loop.py
	$(PY) benchmarks/kernels.py graph
	$(PY) benchmarks/kernels.py pynative
	$(PY) benchmarks/process.py
	$(PY) benchmarks/torch_ops.py
	$(PY) benchmarks/torch_jobs.py
	$(PY) benchmarks/analysis.py
	$(PY) benchmarks/ownership.py
	$(PY) benchmarks/fallbacks.py
	$(PY) benchmarks/device.py
	$(PY) benchmarks/device_analysis.py
	$(PY) benchmarks/report.py

docs: $(VENV)/.installed ## Build the pages of docs/ into build/site.
	$(PIP) install -e '.[docs]'
	$(VENV)/bin/mkdocs build --strict

picture: demo ## Draw the summary of the demo anew, for docs/getting-started.md.
	$(PY) docs/picture.py "$$(ls -td data/*_ascend_ms | head -n 1)" docs/summary.svg

clean: ## Remove what was built, .venv included.
	rm -rf $(VENV) .venv-versions build dist wheelhouse .pytest_cache .mypy_cache .ruff_cache

check-python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 10) <= v <= (3, 12) or sys.exit( \
	  "MindSpore 2.10 runs on Python 3.10 to 3.12, and $(PYTHON) is %d.%d. Run: make PYTHON=python3.11 ..." % v)'

# The editable install: Python sources are used in place, native/ is built. Build tools come from PyPI by themselves.
$(VENV)/.installed: $(NATIVE)
	@$(MAKE) --no-print-directory check-python
	@echo "Setting up $(VENV) ..."
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install -e '.[analysis]'
	@touch $@

# numpy<2: with numpy 2 MindSpore's wheel prints pages of warnings.
$(VENV)/.frameworks: $(VENV)/.installed
	$(PIP) install mindspore==2.10.0 torch==2.13.0 'numpy<2'
	@touch $@

$(VENV)/.tests: $(VENV)/.frameworks $(VENV)/.tools
	$(PIP) install -e '.[analysis,test]'
	@touch $@

# Loops that others wrote around PyTorch, and a tool with three hundred megabytes of its own to read one file with.
$(VENV)/.trainers: $(VENV)/.frameworks
	$(PIP) install lightning transformers accelerate stable-baselines3 gymnasium skorch torch==2.13.0 'numpy<2'
	$(PIP) install 'distributed>=2024.1' s3fs 'moto[server]' ray
	$(PIP) install --no-deps mindcv
	$(PY) -m venv $(VENV)/hta
	$(VENV)/hta/bin/python -m pip --disable-pip-version-check -q install HolisticTraceAnalysis==0.5.0 'pandas<3' 'numpy<2'
	@touch $@

# Tools that jobs run beside, and packages whose own tests run under the profiler; above the environment of the tests.
NEIGHBOURS := opentelemetry-distro ddtrace gevent wandb mlflow-skinny sentry-sdk coverage viztracer debugpy pytest
PACKAGES   := einops linear_operator pytorch_ignite
# a package with an extension, whose wheel has its tests, and what these need
EXTENSION  := 'thinc<8.3' hypothesis mock
$(VENV)/.robustness: $(VENV)/.frameworks
	$(PY) -m venv $(VENV)/robustness
	$(PY) -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
	  > $$(echo $(VENV)/robustness/lib/python3*/site-packages)/_above.pth
	$(VENV)/robustness/bin/python -m pip --disable-pip-version-check -q install $(NEIGHBOURS) $(PACKAGES) $(EXTENSION) torch==2.13.0 'numpy<2'
	for name in $(PACKAGES); do \
	  rm -rf $(VENV)/robustness/sources/$$name && mkdir -p $(VENV)/robustness/sources/$$name && \
	  $(PIP) download --no-deps --no-binary $$name -d $(VENV)/robustness/sources $$name && \
	  tar -xzf $(VENV)/robustness/sources/$$name-*.tar.gz -C $(VENV)/robustness/sources/$$name --strip-components 1; done
	@touch $@

# The tools that read our results; apart, because they need numpy 2.
$(VENV)/.tools: $(VENV)/.installed
	$(PY) -m venv $(VENV)/tools
	$(VENV)/tools/bin/python -m pip --disable-pip-version-check -q install msprof-analyze==26.2.0
	@touch $@
