# The parts of the tests by name; what each one runs stands in tests/tools/gates.py. No part needs make: ./test unit
PARTS := quick images lint types unit docs changelog newest sanity lab cluster molecule

.PHONY: help setup test demo lock clean $(PARTS)
.DEFAULT_GOAL := help

help:            ## this list
	@sed -n 's/^\([a-z]*\): .*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 16
	@./test --help | sed -n '/^parts:/,$$p'

setup:           ## the packages and the tools in .venv
	@tests/tools/bootstrap

test:            ## all parts
	@./test

$(PARTS):
	@./test $@

demo:            ## the lab fleet up, site.yml on it, and the table
	@./demo

lock: setup      ## make the locked requirements anew; UPGRADE=--upgrade with the newest packages
	lock() { .venv/bin/uv pip compile -q $(UPGRADE) --system-certs $${5:---universal} --python-version $$2 --generate-hashes --no-emit-index-url \
	  --no-annotate --custom-compile-command 'make lock' requirements/$$1.in $$4 -o $$3/$$1.txt; }; \
	lock tools 3.11 requirements && lock newest 3.12 requirements && lock drift_timer 3.13 requirements && \
	lock execution_environment 3.12 requirements -crequirements/drift_timer.txt && \
	lock hub 3.11 roles/model_store/files -crequirements/tools.txt && \
	lock pull 3.11 roles/pull/files -crequirements/drift_timer.txt && \
	lock runner 3.11 roles/drift_timer/files -crequirements/drift_timer.txt && \
	lock phoenix 3.11 roles/phoenix/files && \
	lock benchy 3.11 playbooks/files && \
	lock open_webui 3.11 requirements --override=requirements/open_webui_overrides.txt --python-platform=x86_64-manylinux_2_36 && \
	lock hermes 3.11 requirements && lock browser 3.11 requirements

clean:           ## the lab down, and all that tests and tools made
	for lab in .lab .lab-molecule/*; do tests/lab/lab -d $$lab down; done
	rm -rf .cache .mypy_cache .ruff_cache .hypothesis .ansible *.tar.gz
