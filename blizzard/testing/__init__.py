"""What tests stand on: fault points, in-memory ports, the model of the whole."""
