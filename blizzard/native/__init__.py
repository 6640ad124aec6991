"""The native parser, where it was built. It reads a line only where it is certain of every value."""
