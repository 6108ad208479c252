# One command per job. Everything that is fetched or built is in this folder: .tools/ (sbt, its libraries), .venv/
# (Python; .venv-4.3/ for another Spark line) and target/ folders. `make clean` removes what was built; remove .tools/,
# .venv/ and .venv-*/ to remove the rest. project/locks pins their versions and hashes: `make locks`.

VERSION := $(shell cat VERSION)
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13; do \
	$$each --version >/dev/null 2>&1 && echo $$each && exit; done; echo python3)
PYTEST_FLAGS ?=
BENCH_FLAGS ?=

TOOLS := $(CURDIR)/.tools
# The folder for the output of `make release`.
DIST ?= $(CURDIR)/dist
GROUP := $(shell awk '$$1 == "group" { print $$2 }' project/publisher)

# project/spark-lines lists the Spark lines. SPARK= selects one: `make test SPARK=4.3`. The default line uses the
# environment .venv; the others use .venv-4.3 and so on, with their own PySpark and everything else from .venv.
DEFAULT_SPARK := $(shell awk '$$5 == "default" { print $$1 }' project/spark-lines)
SPARK ?= $(DEFAULT_SPARK)
LINES := $(shell awk '$$1 ~ /^[0-9]/ { print $$1 }' project/spark-lines)
version_of = $(shell awk '$$1 == "$(1)" { print $$2 }' project/spark-lines)
client_of = $(shell awk '$$1 == "$(1)" { print $$4 }' project/spark-lines)
environment_of = .venv$(if $(filter-out $(DEFAULT_SPARK),$(1)),-$(1))
ENVIRONMENT := $(call environment_of,$(SPARK))
VENV := $(ENVIRONMENT)/bin
CLIENT := .venv-client-$(SPARK)
JARS := python/src/streamjoin/jars
jar_of = $(JARS)/streamjoin-spark$(1)_2.13-$(VERSION).jar
JAR := $(call jar_of,$(SPARK))
JAR_SOURCES := $(shell find scala/*/src/main project \( -name target -o -path project/lint -o -path project/release \) -prune -o -type f -print) build.sbt VERSION LICENSE \
	$(addprefix python/src/streamjoin/,error-conditions.json figures.json functions.json)

# Hadoop's local file system without processes, in Scala's tests and in the sessions of Python's.
TEST_FILES := scala/spark/src/test
FILES_JAR := $(TOOLS)/test-files-$(SPARK).jar

# An archive of Spark's loaded classes: with it, starting Spark takes half the CPU time.
CLASSES := $(TOOLS)/spark-classes-$(SPARK).jsa

sbt_of = java -Xmx2g -Dspark=$(1) -Dstreamjoin.dist=$(DIST) -Dsbt.override.build.repos=true -Dsbt.repository.config=project/repositories \
	-Dsbt.global.base=.tools/sbt -Dsbt.boot.directory=.tools/sbt/boot -Dsbt.ivy.home=.tools/ivy \
	-Dsbt.coursier.home=.tools/coursier -Dcoursier.cache=$(TOOLS)/coursier/cache \
	-Dsbt.color=false -Dsbt.supershell=false -jar .tools/sbt-launch.jar
SBT := $(call sbt_of,$(SPARK))
PYTHON_FILES := python tests docs project $(wildcard examples) $(wildcard benchmarks)
RUFF := $(VENV)/ruff
RUFF_CONFIG := --config python/pyproject.toml $(PYTHON_FILES)
MYPY := $(VENV)/mypy --config-file python/pyproject.toml --strict
MVN := mvn -q -Dmaven.repo.local=$(TOOLS)/m2

# Runs the Spark of the environment, even if the machine has another one.
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_SUBMIT_ARGS PYSPARK_DRIVER_PYTHON PYTHONPATH
export PYSPARK_PYTHON := $(CURDIR)/$(VENV)/python

# For targets that run in parallel.
LANES := --no-print-directory --keep-going $(filter --output-sync,$(.FEATURES:output-sync=--output-sync))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help tools demo demo-report demo-chain demo-sql demo-delta demo-temporal demo-take-over demo-kafka test test-long test-s3 test-comet soak ci lint lint-scala lint-python lint-prose format docs docs-links scaladoc signatures locks test-scala test-failures test-programs test-python other-lines test-line test-line-scala test-line-python test-lines wheel release sign bundle upload try-release jar jars bench bench-small bench-delta bench-nexmark bench-temporal bench-touched bench-s3 bench-full jmh clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

# The required tools of the machine; everything else is fetched.
tools:
	@sh project/tools.sh "$(PYTHON)"

demo: $(JAR) $(ENVIRONMENT)/.installed ## join two growing streams of files, and compare the result with DuckDB's
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/spark-submit --properties-file examples/demo/spark-defaults.conf \
		--jars "$$($(VENV)/python -m streamjoin jar)" examples/demo/orders_deliveries.py

# If there is a browser, it shows the report.
demo-report: $(JAR) $(ENVIRONMENT)/.installed ## run the demo, and show a report of its batches in the browser
	rm -rf build/demo-report
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/spark-submit --properties-file examples/demo/spark-defaults.conf \
		--conf spark.streamjoin.history="$(CURDIR)/build/demo-report/history" \
		--jars "$$($(VENV)/python -m streamjoin jar)" examples/demo/orders_deliveries.py
	$(VENV)/python -m streamjoin report build/demo-report/history build/demo-report/report.html
	-$(VENV)/python -m webbrowser "file://$(CURDIR)/build/demo-report/report.html"

demo-chain: $(JAR) $(ENVIRONMENT)/.installed ## join three streams, one of which stalls: shows every watermark and the state of each join
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/spark-submit --properties-file examples/demo/spark-defaults.conf \
		--jars "$$($(VENV)/python -m streamjoin jar)" examples/demo/orders_deliveries_returns.py

demo-sql: $(JAR) $(ENVIRONMENT)/.installed ## run the demo with the join in a SQL file
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/spark-submit --properties-file examples/demo/spark-defaults.conf \
		--jars "$$($(VENV)/python -m streamjoin jar)" examples/demo/orders_deliveries.py --source sql

demo-delta: $(JAR) $(ENVIRONMENT)/.installed ## keep the join of TPC-H query 3 up to date while its three tables change
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/spark-submit --properties-file examples/demo/spark-defaults.conf \
		--jars "$$($(VENV)/python -m streamjoin jar)" examples/demo/delta_join.py

demo-temporal: $(JAR) $(ENVIRONMENT)/.installed ## join orders with the prices and currency rates of their time, all three as streams
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/spark-submit --properties-file examples/demo/spark-defaults.conf \
		--jars "$$($(VENV)/python -m streamjoin jar)" examples/demo/temporal_join.py

demo-take-over: $(JAR) $(ENVIRONMENT)/.installed ## stop a query of plain Spark, and continue it on streamjoin with its checkpoint
	$(VENV)/python examples/demo/run_take_over_demo.py

demo-kafka: $(JAR) $(ENVIRONMENT)/.installed ## run the demo from Kafka to Kafka, with its own broker
	$(VENV)/python examples/demo/run_kafka_demo.py

# Short runs spend half of their time on loading Spark's classes and on the optimizing compiler, and most of these are
# short: they share an archive of the classes and do not use the compiler.
# Without it, the smaller code cache would be full before sbt has compiled everything. With more JVMs than cores, a
# garbage collector with its own threads takes CPU time from the tests.
test test-scala test-failures test-programs test-python test-line test-line-scala test-line-python test-lines: export \
	JDK_JAVA_OPTIONS := -XX:+UseSerialGC \
	-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m
test-scala test-failures test-programs test-python: export JDK_JAVA_OPTIONS += -XX:SharedArchiveFile=$(CLASSES) \
	-Xlog:cds=off -Xlog:cds+dynamic=off
test-failures test-programs test-python test-line-python: export SPARK_DIST_CLASSPATH := $(FILES_JAR)
test: $(JAR) $(ENVIRONMENT)/.installed $(CLIENT)/.installed $(CLASSES) $(FILES_JAR) ## run the tests of CI in four lanes, 19 minutes on two cores
	@echo "Four lanes run side by side. The output of each follows when it ends."
	@$(MAKE) $(LANES) --jobs=4 \
		test-scala test-failures test-programs test-python

# The Python tests run in three lanes of similar length, because each lane is idle half of the time: tests that kill,
# restart and wait, and random cases; tests that start programs, servers and a browser; all others, which share one
# session.
FAILURES := $(addprefix tests/,test_arrangement_failures.py test_change_failures.py test_cluster.py test_kafka.py \
	test_restart.py test_chain_oracle.py test_oracle.py test_table_oracle.py test_traces.py test_upsert.py \
	test_upsert_failures.py)
PROGRAMS := $(addprefix tests/,test_connect.py test_demo.py test_doc_code.py test_examples.py test_golden.py \
	test_pictures.py test_reports.py test_session.py test_site.py test_soak.py test_symptoms.py test_ui.py)

# What needs the jars of all lines: `make test-lines`.
LAST := $(addprefix tests/,test_lines.py test_wheel.py)

test-scala:
	@$(SBT) test

test-failures:
	@$(VENV)/python -m pytest $(FAILURES) $(PYTEST_FLAGS:%.xml=%-failures.xml)

test-programs:
	@$(VENV)/python -m pytest $(PROGRAMS) $(PYTEST_FLAGS:%.xml=%-programs.xml)

test-python:
	@$(VENV)/python -m pytest tests $(addprefix --ignore=,$(LAST)) $(addprefix --ignore=,$(FAILURES) $(PROGRAMS)) $(PYTEST_FLAGS)

other-lines:
	@echo $(filter-out $(DEFAULT_SPARK),$(LINES))

# What CI runs on a line other than the default one: lint of the line's own files, and the tests that depend on the
# line. Every sixth trace runs, and every 40th query of the parity suite; with STREAMJOIN_SEEDS=20 STREAMJOIN_PARITY=all,
# everything runs, and a demo.
of_line = $(patsubst %,--files=%,$(shell find scala/spark/src/$(1) -path '*/scala-spark-*$(SPARK)*' -name '*.scala'))
test-line: ## run a part of the tests on another line (SPARK=4.3): traces, a part of parity, SQL, old checkpoints
	@$(MAKE) $(LANES) --jobs=2 \
		test-line-scala test-line-python

test-line-scala test-line-python: $(JAR) $(ENVIRONMENT)/.installed $(FILES_JAR)

test-line-scala:
	@$(subst -Dspark=,-Dtests=line -Dspark=,$(SBT)) scalafmtCheckAll "spark/scalafix --check $(call of_line,main)" \
		"spark/Test/scalafix --check $(call of_line,test)" \
		"spark/testOnly *TraceSuite *ParitySuite *AsOfJoinSuite *SqlTextsSuite"

test-line-python: export STREAMJOIN_TESTS := line
test-line-python:
	@$(VENV)/python -m pytest tests/test_session.py tests/test_golden.py tests/test_take_over.py \
		$(if $(STREAMJOIN_SEEDS),tests/test_demo.py::test_orders_deliveries) $(PYTEST_FLAGS)

test-lines: jars $(foreach line,$(LINES),$(call environment_of,$(line))/.installed) ## continue one checkpoint on all Spark lines, from the oldest to the newest; try the wheel as the README says
	.venv/bin/python -m pytest $(LAST) $(PYTEST_FLAGS)

# Growth is visible only on an idle machine, so the soak test runs last and alone.
test-long: ## run all tests, with hundreds of random cases, 20 kills, the full parity suite and the soak test: several hours
	STREAMJOIN_SEEDS=$${STREAMJOIN_SEEDS:-20} STREAMJOIN_KILLS=20 STREAMJOIN_PARITY=all $(MAKE) test
	$(MAKE) test-lines test-s3 test-comet
	STREAMJOIN_SOAK_SECONDS=300 $(MAKE) soak

# Fetches 700 MB, so it is not part of `make test`, which skips these tests.
test-s3: $(JAR) $(ENVIRONMENT)/.installed .tools/s3/.installed ## test joins and arrangements on S3, with a local server and Hadoop's client
	$(VENV)/python -m pytest tests/test_s3.py $(PYTEST_FLAGS)

# Comet's release has a jar for each line of Spark that it supports. All traces run, and each step of a trace is a batch.
COMET := comet-spark-spark4.1_2.13
COMET_VERSION := 1.2.0
COMET_JAR := $(TOOLS)/comet/$(COMET)-$(COMET_VERSION).jar
test-comet: $(call jar_of,4.1) $(call environment_of,4.1)/.installed $(COMET_JAR) ## test joins on Spark 4.1 with Apache DataFusion Comet, its plugin and its shuffle manager
	STREAMJOIN_COMET=$(COMET_JAR) STREAMJOIN_SEEDS=$${STREAMJOIN_SEEDS:-20} \
		PYSPARK_PYTHON=$(CURDIR)/$(call environment_of,4.1)/bin/python $(call environment_of,4.1)/bin/python -m pytest \
		tests/test_comet.py tests/test_traces.py tests/test_oracle.py tests/test_chain_oracle.py $(PYTEST_FLAGS)

$(COMET_JAR): | tools
	$(MVN) org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
		-Dartifact=org.apache.datafusion:$(COMET):$(COMET_VERSION) -DoutputDirectory=$(@D)

soak: $(JAR) $(ENVIRONMENT)/.installed ## run at a fixed rate for a quarter of an hour, with restarts, and check that nothing grows
	STREAMJOIN_SOAK_SECONDS=$${STREAMJOIN_SOAK_SECONDS:-900} $(VENV)/python -m pytest -s tests/test_soak.py

ci: lint test ## run everything that CI runs

# The type checks use one core, as do the Scala rules.
lint: .tools/sbt-launch.jar $(ENVIRONMENT)/.installed ## check formats, lint rules, types, locked jars and prose
	@$(MAKE) $(LANES) --jobs=2 lint-scala lint-python lint-prose

lint-scala:
	@$(SBT) scalafmtSbtCheck scalafmtCheckAll "scalafixAll --check"

lint-python:
	@$(RUFF) check $(RUFF_CONFIG)
	@$(RUFF) format --check $(RUFF_CONFIG)
	@$(MYPY) python/src $(wildcard examples/*.py)
	@MYPYPATH=examples/demo $(MYPY) $(wildcard examples/demo/*.py)
	@MYPYPATH=tests:examples:examples/demo:project/lint:project/locks:project/release:docs:benchmarks $(MYPY) $(wildcard tests/*.py)
	@$(MYPY) $(wildcard tests/jobs/*.py)
	@MYPYPATH=benchmarks:tests $(MYPY) $(wildcard benchmarks/*.py)
	@MYPYPATH=benchmarks:examples/demo $(MYPY) $(wildcard benchmarks/nexmark/*.py)
	@$(VENV)/python project/locks/jars.py check

# Needs only Python. The script contains the rules and accepts pages: `python3 project/lint/prose.py docs/tuning.md`.
lint-prose: ## check the prose: line lengths, phrases, comments and commit subjects
	@$(PYTHON) project/lint/prose.py

format: .tools/sbt-launch.jar $(ENVIRONMENT)/.installed ## apply the formats and the fixes of the lint rules
	$(SBT) scalafixAll scalafmtAll scalafmtSbt
	$(VENV)/python docs/figure_tables.py
	$(RUFF) check --fix $(RUFF_CONFIG)
	$(RUFF) format $(RUFF_CONFIG)

# The pages link to CONTRIBUTING.md and CHANGELOG.md, so the site is built from the root. It is always rebuilt
# completely: Sphinx does not notice that a page depends on the results of the benchmarks, or on the Scala API.
SPHINX := .venv/bin/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet -c docs
docs: build/scaladoc/index.html .venv/.installed ## build the documentation site, build/docs/index.html; warnings are errors
	$(SPHINX) -t scaladoc . build/docs
	rm -rf build/docs/scaladoc
	cp -r build/scaladoc build/docs/scaladoc

scaladoc: build/scaladoc/index.html ## build the Scala API docs, build/scaladoc/index.html

build/scaladoc/index.html: $(JAR_SOURCES) | .tools/sbt-launch.jar
	$(call sbt_of,$(DEFAULT_SPARK)) spark/doc
	rm -rf build/scaladoc
	mkdir -p build
	cp -r scala/spark/target/spark-$(DEFAULT_SPARK)/scala-2.13/api build/scaladoc

docs-links: .venv/.installed ## check all external links; needs the network
	$(SPHINX) -b linkcheck . build/docs-links

wheel: jars .venv/.installed ## build the Python wheel with the jars of all Spark lines, in dist/
	.venv/bin/python -m build --wheel --no-isolation --outdir dist python

# Published files are reproducible: their timestamps are those of the last commit. Therefore the wheel gets the jars of
# the Maven repository, not those of an earlier target.
release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: .venv/.installed $(foreach line,$(LINES),$(call environment_of,$(line))/.installed) ## build everything that is published, in dist/: a Maven repository, wheel, sdist, SBOM, checksums
	rm -rf dist
	$(foreach line,$(LINES),$(call sbt_of,$(line)) published/publish &&) true
	rm -rf $(JARS)
	mkdir -p $(JARS)
	cp dist/maven/$(subst .,/,$(GROUP))/*/$(VERSION)/streamjoin-spark*_2.13-$(VERSION).jar $(JARS)
	.venv/bin/python -m build --no-isolation --outdir dist python
	.venv/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz
	.venv/bin/python project/release/sbom.py dist/streamjoin-$(VERSION).cdx.json
	.venv/bin/python project/locks/jars.py check
	cd dist && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum > SHA256SUMS

sign: ## sign the files in DIST (default: dist/) with gpg's key (PGP_PASSPHRASE if it has one)
	$(PYTHON) project/release/sign.py "$(DIST)"

bundle: .tools/sbt-launch.jar ## bundle the files of DIST for Maven Central: target/sona-bundle/bundle.zip
	$(SBT) sonaBundle

upload: .tools/sbt-launch.jar ## publish DIST on Maven Central, irrevocably (SONATYPE_USERNAME, SONATYPE_PASSWORD)
	$(SBT) sonaRelease

# Uploads nothing; the key is discarded.
try-release: .venv/.installed docs ## rehearse the release of dist/: signatures, bundle, SBOM, site; then install and run it on each Spark line
	.venv/bin/python project/release/try_release.py

jar: $(JAR) ## build the jar for one Spark line, inside the Python package (SPARK=4.3; default 4.2)

jars: $(foreach line,$(LINES),$(call jar_of,$(line))) ## build the jars for all Spark lines, inside the Python package

bench: $(JAR) $(ENVIRONMENT)/.installed ## compare with Spark's own join once both are warm, full size, 3 rounds: two and a half hours, tables in benchmarks/results
	$(VENV)/python benchmarks/run.py $(BENCH_FLAGS)

bench-small: $(JAR) $(ENVIRONMENT)/.installed ## compare with Spark's own join on small data, 1 round: about an hour
	$(VENV)/python benchmarks/run.py --small $(BENCH_FLAGS)

bench-delta: $(JAR) $(ENVIRONMENT)/.installed ## compare delta joins with recomputation, and arrangements with a Parquet sink: about ten minutes
	$(VENV)/python benchmarks/delta.py $(BENCH_FLAGS)

bench-nexmark: $(JAR) $(ENVIRONMENT)/.installed ## run Nexmark's queries with joins next to Spark's own join: most of a day (BENCH_FLAGS=--smoke: some minutes)
	PYTHONPATH=benchmarks $(VENV)/python -m nexmark $(BENCH_FLAGS)

bench-temporal: $(JAR) $(ENVIRONMENT)/.installed ## compare temporal joins with hand-written ones and with the shuffle alone, streams with tables, batches with windows: hours
	$(VENV)/python benchmarks/temporal.py $(BENCH_FLAGS)

bench-touched: $(JAR) $(ENVIRONMENT)/.installed ## measure the cost of a row, with and without difficulties such as a hot key: about ten minutes
	$(VENV)/python benchmarks/touched.py $(BENCH_FLAGS)

bench-s3: $(JAR) $(ENVIRONMENT)/.installed .tools/s3/.installed ## compare requests to an object store per batch with Spark's own join: ten minutes
	$(VENV)/python benchmarks/object_store.py

bench-full: $(JAR) $(ENVIRONMENT)/.installed ## run all benchmarks at full size: a day (BENCH_FLAGS=--resume continues)
	$(VENV)/python benchmarks/run.py --full $(BENCH_FLAGS)

pictures: $(JAR) $(ENVIRONMENT)/.installed ## run three queries, and draw the pictures of docs/monitoring.md from their figures
	$(VENV)/python benchmarks/pictures.py

jmh: .tools/sbt-launch.jar ## measure the state engine alone: insert, probe, evict, rebuild, in microseconds
	$(SBT) "stateBenchmarks/Jmh/run -rf text -rff $(CURDIR)/benchmarks/results/state.txt"

clean: ## remove built files, keep fetched ones
	rm -rf target project/target project/project scala/*/target benchmarks/state/target $(JARS) dist python/dist build
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse

.tools/sbt-launch.jar: | tools
	$(MVN) org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
		-Dartifact=org.scala-sbt:sbt-launch:1.11.7 -DoutputDirectory=$(TOOLS) -Dmdep.stripVersion=true

# A line whose jars are not on Maven is compiled with those of its PySpark.
define jar_rule
$(call jar_of,$(1)): $$(JAR_SOURCES) | tools .tools/sbt-launch.jar $(if $(shell grep '^$(1) .* pyspark' project/spark-lines),$(call environment_of,$(1))/.installed)
	$$(call sbt_of,$(1)) spark/assembly
	mkdir -p $$(JARS)
	rm -f $$(JARS)/streamjoin-spark$(1)_*.jar
	cp scala/spark/target/spark-$(1)/scala-2.13/$$(@F) $$@
endef
$(foreach line,$(LINES),$(eval $(call jar_rule,$(line))))

$(CLASSES): $(ENVIRONMENT)/.installed | $(JAR)
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/spark-submit --jars "$$($(VENV)/python -m streamjoin jar)" \
		--driver-java-options "-XX:ArchiveClassesAtExit=$@ -Xlog:cds=off -Xlog:cds+dynamic=off" \
		examples/07_sql_file.py

# Two lanes of CI may make it at once: each in its own folder, and the last step is a rename.
$(FILES_JAR): $(TEST_FILES)/java/org/apache/spark/sql/streamjoin/LocalFilesWithoutProcesses.java \
		$(TEST_FILES)/resources/core-site.xml | $(ENVIRONMENT)/.installed
	folder=$$(mktemp --directory $(TOOLS)/test-files-XXXXXX) && mkdir $$folder/classes && \
		javac -proc:none -cp "$$(echo $(ENVIRONMENT)/lib/python*/site-packages/pyspark/jars)/*" -d $$folder/classes $< && \
		cp $(TEST_FILES)/resources/core-site.xml $$folder/classes && \
		jar --create --file $$folder/classes.jar -C $$folder/classes . && mv $$folder/classes.jar $@; \
		status=$$?; rm -rf $$folder; exit $$status

# Installs what a lock lists, each file with its hash. PySpark is built from source, with the tools of build.txt.
LOCKS := project/locks
pip_locked = $(1)/bin/python -m pip install --quiet --require-hashes --requirement $(LOCKS)/build.txt && \
	$(1)/bin/python -m pip install --quiet --require-hashes --no-build-isolation --requirement $(2)
pip_editable = $(1)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable python

.venv/.installed: $(LOCKS)/build.txt $(LOCKS)/dev.txt python/pyproject.toml VERSION | tools
	$(PYTHON) -m venv .venv
	$(call pip_locked,.venv,$(LOCKS)/dev.txt)
	$(call pip_editable,.venv)
	touch $@

.venv-%/.installed: $(LOCKS)/build.txt $(LOCKS)/spark-%.txt | .venv/.installed
	$(PYTHON) -m venv --clear .venv-$*
	$(call pip_locked,.venv-$*,$(LOCKS)/spark-$*.txt)
	.venv/bin/python -c "import site; print('import site; site.addsitedir(' + repr(site.getsitepackages()[0]) + ')')" \
		> "$$(.venv-$*/bin/python -c 'import site; print(site.getsitepackages()[0])')/streamjoin-venv.pth"
	touch $@

# Spark Connect's pure client of the line, without py4j and a JVM, for its tests.
.venv-client-%/.installed: $(LOCKS)/build.txt $(LOCKS)/client-%.txt python/pyproject.toml VERSION
	$(PYTHON) -m venv .venv-client-$*
	$(call pip_locked,.venv-client-$*,$(LOCKS)/client-$*.txt)
	$(call pip_editable,.venv-client-$*)
	touch $@

# Hadoop's S3 client, and a server in its own environment.
.tools/s3/.installed: tests/servers/s3.xml $(LOCKS)/s3.txt
	$(MVN) -f tests/servers/s3.xml org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
		-DoutputDirectory=$(TOOLS)/s3/jars
	$(PYTHON) -m venv .tools/s3/venv
	.tools/s3/venv/bin/python -m pip install --quiet --require-hashes --requirement $(LOCKS)/s3.txt
	touch $@

# The build defines the versions of jars, so the lock records the jars that were fetched. project/spark-lines selects
# the release of Spark.
COMPILE := .tools/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes \
	--no-annotate --no-header --no-emit-index-url
locks: .venv/.installed ## update project/locks: the newest Python packages with hashes, and the hashes of jars
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/python -m pip install --quiet --upgrade uv
	printf '%s\n' editables hatchling setuptools | $(COMPILE) - --output-file $(LOCKS)/build.txt
	echo pyspark==$(call version_of,$(DEFAULT_SPARK)) | \
		$(COMPILE) - python/pyproject.toml --extra spark --extra dev --output-file $(LOCKS)/dev.txt
	$(foreach line,$(filter-out $(DEFAULT_SPARK),$(LINES)),echo pyspark==$(call version_of,$(line)) | \
		$(COMPILE) - --output-file $(LOCKS)/spark-$(line).txt &&) true
	$(foreach line,$(LINES),echo pyspark-client==$(call client_of,$(line)) | \
		$(COMPILE) - python/pyproject.toml --extra connect --extra report --extra watch --output-file $(LOCKS)/client-$(line).txt &&) true
	echo 'moto[server]' | $(COMPILE) - --output-file $(LOCKS)/s3.txt
	.venv/bin/python project/locks/jars.py write

signatures: $(JAR) .venv/.installed ## write the API signatures after an intended change: python/ and scala/signatures.txt
	.venv/bin/python tests/signatures.py
	STREAMJOIN_SIGNATURES=write $(SBT) "spark/testOnly *SignaturesSuite"
