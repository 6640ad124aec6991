"""What people do besides runs: look, check, clean up, and change a position by hand (always through run/commit.py)."""
