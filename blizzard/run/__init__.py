"""The spine: one file a step, in the order of the data path.

    assemble → recover → discover → plan → ingest → commit → after_ingest

`carry_out.py` takes a request from its first step to its last. `drain.py` is the loop. `ports.py` has the protocols of
everything outside. Only `assemble.py` names the real table, source, quarantine and ingestor.
"""
