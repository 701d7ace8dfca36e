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

lock: setup      ## renew the locked requirements
	for lock in tools:3.11 newest:3.12 drift_timer:3.13; do \
	  name=$${lock%:*}; \
	  .venv/bin/uv pip compile -q --system-certs --universal --python-version $${lock#*:} --generate-hashes --no-emit-index-url \
	    --no-annotate --custom-compile-command 'make lock' requirements/$$name.in -o requirements/$$name.txt; \
	done

clean:           ## the lab down, and all that tests and tools made
	for lab in .lab .lab-molecule/*; do tests/lab/lab -d $$lab down; done
	rm -rf .cache .mypy_cache .ruff_cache .hypothesis .ansible *.tar.gz
