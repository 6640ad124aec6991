"""What people do beside runs: look, check, and move a position by hand. Each change is a commit of the one ritual."""
