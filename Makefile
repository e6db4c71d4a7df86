.PHONY: setup check test docs
setup:
	scripts/setup dev
check:
	scripts/check
test:
	scripts/test
docs:
	.venv/bin/python -m rl.configdoc docs/configuration.md
