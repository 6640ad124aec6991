"""JSON as its producers write it: a corpus made here, and the first command on each folder of it."""
