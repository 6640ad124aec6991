"""One module per contender, each run as a child process: `python -m benchmarks.contenders.<name> <json spec>`."""
