"""The command line: a thin layer over all other packages. No other package imports it."""
