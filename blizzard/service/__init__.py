"""Around a run: progress, logs, metrics, the API, signals, and following."""
