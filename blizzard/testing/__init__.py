"""For tests and the demo: in-memory ports, changed positions, sample events. Product code never imports this."""
