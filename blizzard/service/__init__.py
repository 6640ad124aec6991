"""Around a run: progress, metrics, the API, signals, and following."""
