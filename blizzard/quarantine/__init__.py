"""Where bad records go: their table, in step with the main one; listed, exported, purged, parsed once more."""
